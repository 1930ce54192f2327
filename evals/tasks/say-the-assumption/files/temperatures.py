"""Prints the average temperature of each day: python3 temperatures.py FILE.

The file is read by the display at the town hall and by the archive, which compares it with earlier years.
"""

import sys
from decimal import Decimal


def averages(path):
    """Return pairs of a day and the average of its temperatures."""
    days = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            day, degrees = line.split()
            days.setdefault(day, []).append(Decimal(degrees))
    return [(day, sum(degrees) / len(degrees)) for day, degrees in sorted(days.items())]


if __name__ == "__main__":
    for day, average in averages(sys.argv[1]):
        print(f"{day} {average:.1f}")
