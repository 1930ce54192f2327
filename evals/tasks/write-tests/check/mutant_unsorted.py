"""Time slots of a day, in minutes from midnight. The end of a slot does not belong to it."""


def overlaps(first, second):
    """Return whether two slots, each (start, end), have a minute in common."""
    return first[0] < second[1] and second[0] < first[1]


def free(slots, start, end):
    """Return the gaps between slots from start to end, in order. Slots may overlap."""
    gaps = []
    for begin, finish in slots:
        if begin > start:
            gaps.append((start, min(begin, end)))
        start = max(start, finish)
        if start >= end:
            return gaps
    gaps.append((start, end))
    return gaps
