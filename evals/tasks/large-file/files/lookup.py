"""Shows the price of an article in euros: python3 lookup.py NUMBER."""

import sys

from catalog import ARTICLES

if __name__ == "__main__":
    prices = [article["cents"] for article in ARTICLES if article["number"] == sys.argv[1]]
    print(f"{prices[-1] / 100:.2f}")
