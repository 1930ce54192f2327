"""Reads sales: lines with a date (day.month.year), a text and an amount."""

import csv

NAMES = {"01": "January", "02": "February", "03": "March"}


def totals(path):
    """Return the cents that were sold in each month, by its name."""
    sums = {}
    with open(path, encoding="utf-8") as file:
        for date, _, amount in csv.reader(file, delimiter=";"):
            month = NAMES.get(date.split(".")[1])
            sums[month] = sums.get(month, 0) + round(float(amount) * 100)
    return sums
