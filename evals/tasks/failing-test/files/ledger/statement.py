"""Account statements: lines of a date, a text and an amount."""

from ledger import money


def balance(lines):
    """Return the sum of the amounts, as people write it."""
    return money.show(sum(money.parse(line.split()[-1]) for line in lines))
