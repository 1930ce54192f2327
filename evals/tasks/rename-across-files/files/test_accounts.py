import unittest

import accounts
import dispatch
import greeting


class Accounts(unittest.TestCase):
    def test_a_user_is_found(self):
        self.assertEqual(accounts.usr("ada"), "Ada Lovelace")

    def test_a_user_is_greeted(self):
        self.assertIn("Grace Hopper", greeting.greet("grace"))

    def test_a_request_is_answered(self):
        self.assertEqual(dispatch.answer("greet", "ada"), greeting.greet("ada"))
