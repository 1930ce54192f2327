import unittest

from server import options


class Options(unittest.TestCase):
    def test_there_are_defaults(self):
        parsed = options.parse([])
        self.assertEqual((parsed.port, parsed.clients), (options.DEFAULT_PORT, 8000))
