import sys

sys.path.insert(0, ".")
from ledger import money

for text, cents in [
    ("1,234.50", 123450), ("-3", -300), ("-2.75", -275), ("-1,000.05", -100005), ("-0.50", -50),
    ("0.5", 50), ("0", 0), ("12.3", 1230), ("-2", -200), ("-30.10", -3010),
]:
    assert money.parse(text) == cents, (text, money.parse(text))
