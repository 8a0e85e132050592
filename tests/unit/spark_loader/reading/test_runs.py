"""Operations on runs of offsets, compared with sets."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_loader.reading.runs import joined, minus, repeated, runs

ranges = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 10)).map(lambda r: (r[0], r[0] + r[1])), max_size=8
)


def numbers(found):
    return {n for start, until in found for n in range(start, until)}


@given(ranges, ranges)
def test_run_operations_match_set_operations(left, right):
    assert numbers(joined(left)) == numbers(left)
    assert numbers(minus(joined(left), joined(right))) == numbers(left) - numbers(right)
    counts = [n for start, until in left for n in range(start, until)]
    assert numbers(repeated(left)) == {n for n in counts if counts.count(n) > 1}
    assert runs(pa.array(sorted(numbers(left)), pa.int64())) == joined(left)
    for found in (joined(left), minus(joined(left), joined(right)), repeated(left)):
        assert found == joined(found)
