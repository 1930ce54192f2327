import unittest

from ledger import statement


class Statement(unittest.TestCase):
    def test_incomes_add_up(self):
        self.assertEqual(statement.balance(["2026-01-02 Sale 1,200.50", "2026-01-03 Sale 7"]), "1,207.50")

    def test_expenses_are_taken_off(self):
        self.assertEqual(statement.balance(["2026-01-02 Sale 10.00", "2026-01-04 Stamps -2.75"]), "7.25")
