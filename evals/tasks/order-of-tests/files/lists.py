"""Lists of articles."""

from articles import article


def cart(*names, into=[]):
    """Return the articles of a cart: those of `into`, and then these."""
    for name in names:
        into.append(article(name))
    return into


def wishes(*names):
    """Return the articles of a list of wishes, the cheapest first."""
    return sorted((article(name) for name in names), key=lambda it: it["cents"])
