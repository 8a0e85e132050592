"""The sums over the rounds of a load."""

from spark_loader.lake.ledger import Gap
from spark_loader.load.result import LoadResult, merge_ranges
from spark_loader.reading.splits import OffsetRange


def test_adjacent_ranges_are_merged():
    assert merge_ranges(
        [
            OffsetRange("t", 0, 5, 9, 40),
            OffsetRange("t", 1, 0, 5, 1),
            OffsetRange("t", 0, 0, 5, 50),
            OffsetRange("t", 0, 10, 11, 1),
        ]
    ) == [
        OffsetRange("t", 0, 0, 9, 90),
        OffsetRange("t", 0, 10, 11, 1),
        OffsetRange("t", 1, 0, 5, 1),
    ]


def test_results_of_rounds_are_summed():
    gap = Gap("t", 0, 0, 1, "deleted")
    first = LoadResult(run=1, rows=2, files=("a",), gaps=(gap,), resumed=True, lag=9, adopted=1)
    both = first.then(LoadResult(run=2, rows=3, files=("b",), seconds=1.5, lag=4))
    assert (both.run, both.rows, both.files, both.gaps) == (2, 5, ("a", "b"), (gap,))
    assert (both.resumed, both.adopted, both.lag, both.seconds) == (True, 1, 4, 1.5)
    assert first.then(LoadResult()).run == 1
