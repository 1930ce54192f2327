import unittest

import invoice


class Invoice(unittest.TestCase):
    def test_items_are_added_up(self):
        self.assertEqual(invoice.invoice([("Tea", 250), ("Cake", 400)])[-1].split()[1], "6.50")
