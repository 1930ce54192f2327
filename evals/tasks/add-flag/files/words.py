"""Counts the words of standard input: python3 words.py [--least N]."""

import argparse
import re
import sys
from collections import Counter


def count(text):
    """Return how often each word is in a text."""
    return Counter(re.findall(r"\w+", text))


def main():
    parser = argparse.ArgumentParser(description="Count the words of standard input.")
    parser.add_argument("--least", type=int, default=1, help="show words that are there so often")
    arguments = parser.parse_args()
    words = count(sys.stdin.read())
    for word, times in sorted(words.items()):
        if times >= arguments.least:
            print(times, word)


if __name__ == "__main__":
    main()
