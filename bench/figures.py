"""Results of benchmarks as data: comparisons with a reference, and growth of a cost.

A `Comparison` keeps every round of both sides, because its ratio is the median of the rounds'
ratios: the two sides of one round ran under the same conditions, two rounds did not. `save` writes
one JSON file a benchmark; `scripts/performance_page.py` makes `docs/performance.md` of these files.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

LOAD_BEFORE = os.getloadavg()[0]
"""The load of the minute before a benchmark begins."""


@dataclass(frozen=True)
class Comparison:
    """One figure of ours compared with a reference.

    Attributes:
        work: such as "produce 16 KiB, magic 2".
        unit: of the figures, as "MB/s".
        reference: such as "Kafka 0.8.2.2".
        ours: one figure for each round.
        other: the reference's, in the same rounds.
        more_is_better: whether a larger figure is the better one.
    """

    work: str
    unit: str
    reference: str
    ours: Sequence[float]
    other: Sequence[float]
    more_is_better: bool = True

    def __post_init__(self) -> None:
        if not self.ours or len(self.ours) != len(self.other):
            raise ValueError(f"{self.work}: {len(self.ours)} rounds beside {len(self.other)}")

    @property
    def ratios(self) -> list[float]:
        """Ours / the reference's, round by round."""
        return [mine / theirs for mine, theirs in zip(self.ours, self.other, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of `ratios`."""
        return statistics.median(self.ratios)

    def line(self) -> str:
        """Return it as a line of a terminal."""
        low, high = min(self.ratios), max(self.ratios)
        return (
            f"{self.work:40} {statistics.median(self.ours):12,.2f} {self.unit:14}"
            f" {self.reference} {statistics.median(self.other):12,.2f}"
            f"   ratio {self.ratio:.2f} ({low:.2f} to {high:.2f})"
        )


@dataclass(frozen=True)
class Growth:
    """How a cost grows with something.

    Attributes:
        work: such as "produce 1 KiB".
        unit: of the cost, as "µs of broker CPU a request".
        against: the size that grows, such as "idle connections".
        points: pairs of size and median cost, in order of size.
        expected: "constant" or "linear": the growth in a good design.
    """

    work: str
    unit: str
    against: str
    points: Sequence[tuple[float, float]]
    expected: str = "constant"

    @property
    def factor(self) -> float:
        """The last cost / the first one."""
        return self.points[-1][1] / self.points[0][1]

    def line(self) -> str:
        """Return it as a line of a terminal."""
        points = ", ".join(f"{size:,g}: {cost:,.1f}" for size, cost in self.points)
        return f"{self.work}, {self.unit}, by {self.against} ({self.expected}): {points}"


@dataclass(frozen=True)
class Found:
    """All results of one benchmark, with its machine."""

    name: str
    comparisons: Sequence[Comparison] = ()
    growths: Sequence[Growth] = ()
    machine: Mapping[str, object] = field(default_factory=lambda: machine())

    def save(self, directory: Path) -> Path:
        """Write `NAME.json`; returns its path."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.name}.json"
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> "Found":
        """Read the file of `save`.

        Raises:
            ValueError: it is not a file of results; the message names it.
        """
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                read["name"],
                [Comparison(**each) for each in read["comparisons"]],
                [
                    Growth(**{**each, "points": [(size, cost) for size, cost in each["points"]]})
                    for each in read["growths"]
                ],
                read["machine"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a result of a benchmark: {error!r}") from error

    def show(self) -> None:
        """Print it."""
        for each in (*self.comparisons, *self.growths):
            print(each.line(), flush=True)


def of_clients(
    messages: int, runs: Mapping[str, Sequence[tuple[float, float]]], others: Sequence[str]
) -> list[Comparison]:
    """Compare our clients with others that moved the same messages.

    Args:
        messages: of each run.
        runs: seconds and CPU-seconds of each round by the client's name.
        others: clients that are references; all others are ours.

    Returns:
        messages/s and CPU µs per message of each of ours, compared with each of the others that
        ran.
    """
    found = []
    for base in [name for name in others if name in runs]:
        for name in [name for name in runs if name not in others]:
            rates, costs = (
                [[messages / seconds for seconds, _ in runs[side]] for side in (name, base)],
                [[cpu_s / messages * 1e6 for _, cpu_s in runs[side]] for side in (name, base)],
            )
            found.append(Comparison(name, "messages/s", base, *rates))
            found.append(Comparison(name, "CPU µs a message", base, *costs, more_is_better=False))
    return found


def machine() -> dict[str, object]:
    """Return a description of the machine, for the figures."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cores": os.cpu_count(),
        "model": model,
        "python": platform.python_version(),
        "day": time.strftime("%Y-%m-%d"),
        "load": round(os.getloadavg()[1], 1),
        "load before": round(LOAD_BEFORE, 1),
    }


def cpu_seconds(*pids: int) -> float:
    """Return the CPU time of processes, user and system, to the nanosecond.

    Linux gives every process a clock whose number follows from its id (clock_getcpuclockid(3)).
    """
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def options(text: str | None, rounds: int = 5) -> argparse.ArgumentParser:
    """Return the options of every benchmark of the page; let SIGTERM end it in order.

    Args:
        text: of its module.
        rounds: how many it runs by default.
    """
    # Java brokers outlive a process that does not stop them.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--results", type=Path, help="directory for a JSON file of its name")
    return parser


def publish(found: Found, results: Path | None) -> None:
    """Print the results, and save them if a directory is given."""
    found.show()
    if results is not None:
        print(found.save(results), flush=True)
