import unittest

from lists import cart, wishes


class Wishes(unittest.TestCase):
    def test_the_cheapest_comes_first(self):
        self.assertEqual([it["name"] for it in wishes("pot", "tea")], ["tea", "pot"])

    def test_wishes_become_a_cart(self):
        self.assertEqual([it["name"] for it in cart("pot")], ["pot"])
