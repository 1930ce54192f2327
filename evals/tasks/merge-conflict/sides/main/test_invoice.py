import unittest

import invoice


class Invoice(unittest.TestCase):
    def test_items_are_added_up(self):
        self.assertEqual(invoice.invoice([("Tea", 250), ("Cake", 400)])[-1].split()[1], "6.50")

    def test_a_discount_is_taken_off(self):
        lines = invoice.invoice([("Tea", 250), ("Cake", 400)], discount=10)
        self.assertEqual([line.split()[1] for line in lines], ["2.50", "4.00", "-0.65", "5.85"])
