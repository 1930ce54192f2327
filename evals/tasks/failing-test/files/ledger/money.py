"""Amounts in cents, and how people write them."""


def parse(text):
    """Return the cents of an amount such as 1,234.50 or -3."""
    whole, _, fraction = text.replace(",", "").partition(".")
    cents = int(fraction.ljust(2, "0")[:2])
    return int(whole) * 100 + cents


def show(cents):
    """Return an amount as people write it."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02}"
