"""Articles by their name."""

CENTS = {"tea": 450, "cup": 900, "pot": 3200}
KNOWN = {}


def article(name, **more):
    """Return an article. Further fields replace those of the catalog."""
    known = KNOWN.setdefault(name, {"name": name, "cents": CENTS[name]})
    known.update(more)
    return known
