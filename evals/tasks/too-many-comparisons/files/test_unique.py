import unittest

from unique import counts, unique


class Unique(unittest.TestCase):
    def test_the_last_place_counts(self):
        self.assertEqual(unique(["a", "b", "a", "c"]), ["b", "a", "c"])

    def test_frequent_tags_come_first(self):
        self.assertEqual(counts(["a", "b", "a", "c"]), [("a", 2), ("b", 1), ("c", 1)])
