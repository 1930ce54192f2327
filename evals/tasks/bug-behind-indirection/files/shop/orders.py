"""Orders: the total that a customer pays."""

from shop import shipping, tax


def total(net, country):
    """Return the price in cents with tax and shipping."""
    return net + tax.amount(net, country) + shipping.cost(country)
