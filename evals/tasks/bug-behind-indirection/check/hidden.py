import sys

sys.path.insert(0, ".")
from shop import orders, shipping, tax

assert tax.amount(10000, "CH") == 810, "tax of CH"
assert tax.amount(10000, " ch ") == 810, "tax of ch"
assert shipping.cost("CH") == 1490, "shipping to CH"
assert orders.total(10000, "CH") == 12300, "total of CH"
for code, net in [("CS", 12990), ("CZ", 12990), ("UK", 13490), ("EL", 13290), ("D", 12390), ("A", 12490)]:
    assert orders.total(10000, code) == net, code
