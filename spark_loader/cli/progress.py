"""Progress of a load, for people: a bar on a terminal, lines in a pipe or a log.

Invariant: output is bounded by time, not by the number of reports: a terminal is drawn a few times
    a second, a line is written every `LINE_EVERY_S` at most.
"""

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from spark_loader.load.progress import Progress
from spark_loader.plurals import counted

LINE_EVERY_S = 10.0
_DRAWN_PER_S = 4
_WINDOW_S = 30.0
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class LoadPace:
    """The rate of rows and bytes over the last seconds, and the time left.

    Args:
        clock: seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, int, int]] = deque()

    def add(self, progress: Progress) -> None:
        """Take a report."""
        now = self._clock()
        if self._seen and progress.rows < self._seen[-1][1]:
            # Another run has begun.
            self._seen.clear()
        self._seen.append((now, progress.rows, progress.bytes))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW_S:
            self._seen.popleft()

    def rates(self) -> tuple[float, float] | None:
        """Return rows and bytes per second; None while nothing is known."""
        if len(self._seen) < 2:
            return None
        (began, rows, size), (now, rows_now, size_now) = self._seen[0], self._seen[-1]
        if now <= began or rows_now <= rows:
            return None
        return (rows_now - rows) / (now - began), (size_now - size) / (now - began)

    def seconds_left(self, progress: Progress) -> float | None:
        """Return how long the rest takes at this pace; None while nothing is known."""
        rates = self.rates()
        left = progress.planned_rows - progress.rows
        return left / rates[0] if rates is not None and left > 0 else None


def figures(progress: Progress, pace: LoadPace) -> str:
    """Return the figures of a load as text; empty before there are any."""
    if not progress.planned_rows:
        return ""
    parts = [f"{progress.rows:,}/{counted(progress.planned_rows, 'row')}", sized(progress.bytes)]
    rates = pace.rates()
    if rates is not None:
        parts.append(f"{rates[0]:,.0f} rows/s, {sized(rates[1])}/s")
    parts.append(f"lag {progress.lag:,}")
    left = pace.seconds_left(progress)
    if left is not None:
        parts.append(f"about {lasting(left)} left")
    return "  ".join(parts)


def sized(size_bytes: float) -> str:
    """Return a number of bytes for people: `1.5 MiB`."""
    unit = 0
    while size_bytes >= 1024 and unit < len(_UNITS) - 1:
        size_bytes /= 1024
        unit += 1
    return f"{size_bytes:.0f} {_UNITS[unit]}" if unit == 0 else f"{size_bytes:.1f} {_UNITS[unit]}"


def lasting(seconds: float) -> str:
    """Return a time span for people: `45 s`, `3:20 min`, `2:05 h`."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


class ProgressBar:
    """Shows what a load is doing, on the terminal's error stream."""

    def __init__(self) -> None:
        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            refresh_per_second=_DRAWN_PER_S,
            # The bar is erased at the end: the summary says the same.
            transient=True,
        )
        self._pace = LoadPace()
        self._task = self._bars.add_task(Progress(stage="plan").doing, total=None, figures="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def update(self, progress: Progress) -> None:
        """Take a report of the load."""
        self._pace.add(progress)
        self._bars.update(
            self._task,
            description=progress.doing,
            completed=progress.rows,
            total=progress.planned_rows or None,
            figures=figures(progress, self._pace),
        )


class ProgressLines:
    """Writes a line now and then, where the error stream is not a terminal.

    A load that ends before the first line is due writes none. Its end is not a line of its own:
    the summary follows.

    Args:
        say: writes a line.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        say: Callable[[str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say if say is not None else _to_stderr
        self._clock = clock
        self._pace = LoadPace(clock)
        self._due = clock() + LINE_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left open."""

    def update(self, progress: Progress) -> None:
        """Take a report of the load."""
        self._pace.add(progress)
        now = self._clock()
        if now < self._due or progress.stage == "done":
            return
        self._due = now + LINE_EVERY_S
        numbers = figures(progress, self._pace)
        self._say(f"{progress.doing}: {numbers}" if numbers else progress.doing)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - a line for people
