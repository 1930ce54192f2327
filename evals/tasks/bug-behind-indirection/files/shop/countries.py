"""Country codes, as customers and older systems write them."""

from shop.legacy import LEGACY_CODES


def canonical(code):
    """Return the ISO code of a country."""
    code = code.strip().upper()
    return LEGACY_CODES.get(code, code)
