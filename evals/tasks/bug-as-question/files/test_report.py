import unittest

import sales


class Report(unittest.TestCase):
    def test_months_are_added_up(self):
        totals = sales.totals("sales.csv")
        self.assertEqual((totals["January"], totals["February"]), (1570, 2800))
