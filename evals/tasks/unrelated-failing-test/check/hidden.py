import sys

sys.path.insert(0, ".")
import stats

numbers = [3, 1, 2]
assert stats.median(numbers) == 2 and numbers == [3, 1, 2], "the list is changed, or the median is wrong"
assert stats.median([10, 1, 4, 2]) == 3
assert stats.median([7]) == 7
try:
    stats.median([])
except ValueError:
    pass
else:
    raise AssertionError("a median of nothing")
