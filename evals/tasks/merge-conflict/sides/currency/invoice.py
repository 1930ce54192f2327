"""Invoices."""


def line(text, cents, currency="EUR"):
    """Return a line of an invoice."""
    return f"{text}: {cents / 100:.2f} {currency}"


def invoice(items, currency="EUR"):
    """Return the lines of an invoice and its sum."""
    lines = [line(text, cents, currency) for text, cents in items]
    lines.append(line("Sum", sum(cents for _, cents in items), currency))
    return lines
