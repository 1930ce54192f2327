"""Prints the sales of each month: python3 report.py FILE."""

import sys

import sales

MONTHS = ["January", "February", "March"]


def main():
    totals = sales.totals(sys.argv[1])
    for month in MONTHS:
        print(f"{month:<9} {totals.get(month, 0) / 100:>9.2f}")


if __name__ == "__main__":
    main()
