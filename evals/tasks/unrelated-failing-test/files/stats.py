"""Figures of lists of numbers."""


def mean(numbers):
    """Return the mean of numbers."""
    if not numbers:
        raise ValueError("no numbers")
    return sum(numbers) / len(numbers)
