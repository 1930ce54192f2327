import unittest

from readers import read_env, read_ini, read_properties


class Readers(unittest.TestCase):
    def test_each_reads_its_format(self):
        self.assertEqual(read_ini("; x\nA = 1\n"), {"a": "1"})
        self.assertEqual(read_env('# x\nA="1"\n'), {"A": "1"})
        self.assertEqual(read_properties("! x\na: 1\n"), {"a": "1"})
