import sys

sys.path.insert(0, ".")
from articles import article
from lists import cart, wishes

assert len(cart("tea")) == 1 and len(cart("cup")) == 1, "carts share articles"
assert [it["name"] for it in cart("cup", into=[article("tea")])] == ["tea", "cup"], "into is lost"
assert article("pot", cents=100)["cents"] == 100
assert article("pot")["cents"] == 3200, "an article remembers its last price"
assert [it["name"] for it in wishes("pot", "tea", "cup")] == ["tea", "cup", "pot"]
