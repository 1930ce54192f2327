import inspect
import sys

sys.path.insert(0, ".")
import invoice

items = [("Tea", 250), ("Cake", 400)]
assert invoice.invoice(items) == ["Tea: 2.50 EUR", "Cake: 4.00 EUR", "Sum: 6.50 EUR"]
assert invoice.invoice(items, currency="CHF")[-1] == "Sum: 6.50 CHF"
assert invoice.invoice(items, currency="CHF", discount=10) == [
    "Tea: 2.50 CHF", "Cake: 4.00 CHF", "Discount: -0.65 CHF", "Sum: 5.85 CHF",
]
with open("test_invoice.py", encoding="utf-8") as file:
    tests = file.read()
for name in ["test_items_are_added_up", "test_a_discount_is_taken_off", "test_the_currency_is_named"]:
    assert name in tests, f"{name} is lost"
