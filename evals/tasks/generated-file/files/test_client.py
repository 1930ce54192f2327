import unittest

import client


class Client(unittest.TestCase):
    def test_a_user_is_shown(self):
        call = lambda method, path, **arguments: (method, path, arguments)
        self.assertEqual(client.show_user(call, 7), ("GET", "/users/show", {"id": 7}))
