import unittest

import export


class Export(unittest.TestCase):
    def test_numbers_are_separated_by_semicolons(self):
        self.assertEqual(export.export([1, 2]), "1;2")
