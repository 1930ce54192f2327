import unittest

import stats


class Mean(unittest.TestCase):
    def test_the_mean_is_in_the_middle(self):
        self.assertEqual(stats.mean([1, 2, 6]), 3)

    def test_there_is_no_mean_of_nothing(self):
        with self.assertRaises(ValueError):
            stats.mean([])
