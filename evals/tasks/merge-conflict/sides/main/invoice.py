"""Invoices."""


def line(text, cents):
    """Return a line of an invoice."""
    return f"{text}: {cents / 100:.2f}"


def invoice(items, discount=0):
    """Return the lines of an invoice and its sum. The discount is in percent of the sum."""
    lines = [line(text, cents) for text, cents in items]
    total = sum(cents for _, cents in items)
    if discount:
        off = total * discount // 100
        lines.append(line("Discount", -off))
        total -= off
    lines.append(line("Sum", total))
    return lines
