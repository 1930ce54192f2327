"""Tags of pictures, without repetition."""


def unique(tags):
    """Return each tag once, in the order in which it was there last."""
    result = []
    for tag in tags:
        if tag in result:
            result.remove(tag)
        result.append(tag)
    return result


def counts(tags):
    """Return pairs of a tag and how often it is there: the most frequent first, then in the order of `unique`."""
    pairs = [(tag, tags.count(tag)) for tag in unique(tags)]
    pairs.sort(key=lambda pair: -pair[1])
    return pairs
