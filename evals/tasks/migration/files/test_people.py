import unittest

import database
import people


class People(unittest.TestCase):
    def test_people_are_listed_by_name(self):
        connection = database.connect(":memory:")
        people.add(connection, "Grace Hopper", "New York")
        people.add(connection, "Ada Lovelace", "London")
        self.assertEqual(people.listing(connection), ["Ada Lovelace (London)", "Grace Hopper (New York)"])
