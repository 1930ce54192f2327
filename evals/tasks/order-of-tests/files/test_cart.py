import unittest

from articles import article
from lists import cart


class Cart(unittest.TestCase):
    def test_a_cart_has_its_articles(self):
        self.assertEqual([it["name"] for it in cart("tea", "cup")], ["tea", "cup"])

    def test_an_article_can_be_cheaper(self):
        self.assertEqual(article("pot", cents=100)["cents"], 100)
