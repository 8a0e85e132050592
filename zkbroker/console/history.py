"""Time series, one ring for each, all with the same times.

    times     t0  t1  t2 … tn      (the last `size` samples)
    series a  1   2   3  … 9
    series b  -   -   7  … 8       (- is not known; a series that began later)

Invariant: at most `size` samples and `limit` series are kept. Series are kept by rank: one that is
    not among the first `limit` is dropped as a whole.
"""

import math
from array import array
from collections.abc import Iterable, Mapping

_UNKNOWN = math.nan


class History:
    """The last samples of many series.

    Args:
        size: samples that are kept of each.
        limit: series that are kept.
    """

    def __init__(self, size: int, limit: int) -> None:
        self._size = size
        self._limit = limit
        self._times = array("q", [0] * size)
        self._count = 0
        self._series: dict[str, array[float]] = {}
        self._silent: dict[str, int] = {}

    def record(self, time_ms: int, values: Mapping[str, float | None]) -> None:
        """Add one sample.

        Args:
            time_ms: since 1970.
            values: series → number, the most important first: those beyond the limit are left out.
        """
        place = self._count % self._size
        self._times[place] = time_ms
        self._count += 1
        kept = dict(list(values.items())[: self._limit])
        for name in kept.keys() - self._series.keys():
            self._series[name] = array("d", [_UNKNOWN] * self._size)
        for name in list(self._series):
            value = kept.get(name)
            self._series[name][place] = _UNKNOWN if value is None else value
            if name in kept:
                self._silent.pop(name, None)
                continue
            silent = self._silent.get(name, 0) + 1
            self._silent[name] = silent
            if silent >= self._size or len(self._series) > self._limit:
                del self._series[name], self._silent[name]

    def read(
        self, names: Iterable[str], since_ms: int = 0
    ) -> tuple[list[int], dict[str, list[float | None]]]:
        """Return times, oldest first, and the numbers of series; None for unknown ones.

        Args:
            names: of series; unknown ones are left out.
            since_ms: samples at or before it are left out.
        """
        first = max(0, self._count - self._size)
        places = [number % self._size for number in range(first, self._count)]
        places = [place for place in places if self._times[place] > since_ms]
        found = {
            name: [None if math.isnan(ring[place]) else ring[place] for place in places]
            for name in names
            if (ring := self._series.get(name)) is not None
        }
        return [self._times[place] for place in places], found
