"""Greets users."""

from accounts import usr, usr_dir


def greet(name):
    """Return a greeting of a user."""
    return f"Hello, {usr(name)}! Your files are in {usr_dir(name)}."
