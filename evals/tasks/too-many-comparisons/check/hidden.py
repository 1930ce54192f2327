import random
import sys

sys.path.insert(0, ".")
from unique import counts, unique


class Tag:
    """A tag that counts how often tags are compared and hashed."""

    work = 0

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        Tag.work += 1
        return self.name == other.name

    def __hash__(self):
        Tag.work += 1
        return hash(self.name)


def work(function, length):
    """Return the comparisons and hashes of a call, for one tag of the list."""
    tags = [Tag(n) for n in range(length // 2)] * 2
    Tag.work = 0
    function(tags)
    return Tag.work / length


for function in [unique, counts]:
    assert work(function, 4000) < 20, f"{function.__name__}: {work(function, 4000):.0f} for each tag"

rng = random.Random(1)
for _ in range(300):
    tags = [rng.choice("abcdef") for _ in range(rng.randrange(12))]
    given = list(tags)
    wanted = sorted(set(tags), key=lambda tag: max(n for n, it in enumerate(tags) if it == tag))
    assert unique(tags) == wanted, (tags, unique(tags))
    assert counts(tags) == sorted(((tag, tags.count(tag)) for tag in wanted), key=lambda pair: -pair[1]), tags
    assert tags == given, "the list is changed"
