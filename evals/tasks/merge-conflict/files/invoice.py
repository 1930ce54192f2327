"""Invoices."""


def line(text, cents):
    """Return a line of an invoice."""
    return f"{text}: {cents / 100:.2f}"


def invoice(items):
    """Return the lines of an invoice and its sum."""
    lines = [line(text, cents) for text, cents in items]
    lines.append(line("Sum", sum(cents for _, cents in items)))
    return lines
