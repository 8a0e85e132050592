"""The result of a load, and the sum over several rounds."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from spark_loader.lake.ledger import Gap
from spark_loader.reading.splits import OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """The result of a load.

    Attributes:
        run: number of its run; of the last one when there were several rounds, 0 for none.
        rows: records in data files.
        bytes: length of the data files.
        files: their paths.
        ranges: offsets accounted for, one range per partition.
        gaps: offsets given up, with causes.
        quarantined: records set aside.
        seconds: how long it took.
        resumed: whether an unfinished run was resumed.
        adopted: mappers of that run that had finished before.
        lag: offsets in the log at planning that are not loaded.
    """

    run: int = 0
    rows: int = 0
    bytes: int = 0
    files: tuple[str, ...] = ()
    ranges: tuple[OffsetRange, ...] = ()
    gaps: tuple[Gap, ...] = ()
    quarantined: int = 0
    seconds: float = 0.0
    resumed: bool = False
    adopted: int = 0
    lag: int = 0

    def then(self, later: "LoadResult") -> "LoadResult":
        """Return both results as one."""
        return LoadResult(
            run=later.run or self.run,
            rows=self.rows + later.rows,
            bytes=self.bytes + later.bytes,
            files=self.files + later.files,
            ranges=tuple(merge_ranges([*self.ranges, *later.ranges])),
            gaps=self.gaps + later.gaps,
            quarantined=self.quarantined + later.quarantined,
            seconds=self.seconds + later.seconds,
            resumed=self.resumed or later.resumed,
            adopted=self.adopted + later.adopted,
            lag=later.lag,
        )


def merge_ranges(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Join ranges of the same partition that touch."""
    merged: list[OffsetRange] = []
    for each in sorted(ranges, key=lambda r: (r.topic, r.partition, r.start)):
        last = merged[-1] if merged else None
        if last is not None and last.source == each.source and last.until == each.start:
            size = last.estimated_bytes + each.estimated_bytes
            merged[-1] = replace(last, until=each.until, estimated_bytes=size)
        else:
            merged.append(each)
    return merged
