import unittest

import invoice


class Invoice(unittest.TestCase):
    def test_items_are_added_up(self):
        self.assertEqual(invoice.invoice([("Tea", 250), ("Cake", 400)])[-1].split()[1], "6.50")

    def test_the_currency_is_named(self):
        self.assertEqual(invoice.invoice([("Tea", 250)]), ["Tea: 2.50 EUR", "Sum: 2.50 EUR"])
        self.assertEqual(invoice.invoice([("Tea", 250)], "CHF")[0], "Tea: 2.50 CHF")
