import subprocess
import sys
import unittest


def run(text, *arguments):
    """Return the lines that words.py prints."""
    command = [sys.executable, "words.py", *arguments]
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


class Words(unittest.TestCase):
    def test_words_are_counted(self):
        self.assertEqual(run("a b a"), ["2 a", "1 b"])

    def test_rare_words_are_left_out(self):
        self.assertEqual(run("a b a", "--least", "2"), ["2 a"])
