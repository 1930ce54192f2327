import unittest

from shop import orders


class Orders(unittest.TestCase):
    def test_an_order_from_austria(self):
        self.assertEqual(orders.total(10000, "at"), 12490)

    def test_an_order_with_a_code_of_the_old_system(self):
        self.assertEqual(orders.total(10000, "UK"), 13490)
        self.assertEqual(orders.total(10000, "CS"), 12990)
