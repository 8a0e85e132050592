"""Writes docs/performance.md and its plots from the results of `make bench`.

    python scripts/performance_page.py [RESULTS] [--docs docs]

Invariant: every figure of the page is read from a file of results, and every plot has one sentence
that says what it shows; nothing on the page is typed by hand.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from bench.figures import Comparison, Found, Growth  # noqa: E402 - found beside this script

SECTIONS = {
    "broker": (
        "Broker",
        (
            "Raw requests over plain sockets, so that only the broker is measured. Messages leave "
            "the page cache after their slice: no slice pays for another one's disk writes."
        ),
    ),
    "replicas": (
        "Replicas",
        "Raw produces with `acks=all` to three brokers, whose CPU is counted.",
    ),
    "producer": ("Producers", "Each client in a process of its own, at the same broker of ours."),
    "consumer": ("Consumers", "Each client in a process of its own, at the same broker of ours."),
    "spark": ("Spark", "A topic into Parquet, beside as many rows that Spark makes up itself."),
    "start": ("Start", "From a process's start until the leader of each partition answers."),
    "failover": ("Failover", "From a session's end, or a stop's signal, until new leaders answer."),
    "cores": ("Cores", "The same load for two brokers and for one; clients need cores, too."),
    "mirror": ("Mirror", "One partition from one broker of ours to another."),
    "tls": ("TLS", "librdkafka writes and reads messages of 10 kB at a broker of ours."),
    "console": (
        "Console",
        "What the busiest of three brokers at rest takes of a core for a console.",
    ),
    "growth": ("Growth", "The cost of a request as things grow: constant in a right design."),
}
"""Name of a file of results → heading, and description."""
OURS, OTHER = "#1f6feb", "#8b949e"
STYLE = {
    "svg.hashsalt": "zkbroker",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
}
"""The salt makes the same figures the same file."""


def save(figure: "plt.Figure", docs: Path, name: str) -> str:
    """Write a plot below the manual's directory; returns its path there."""
    path = docs / "images" / f"performance-{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None}, facecolor="white")
    plt.close(figure)
    return f"images/{path.name}"


def plot_comparisons(docs: Path, name: str, comparisons: Sequence[Comparison]) -> str:
    """Ratios as points with their spread; to the right of the line ours is better."""
    figure, axes = plt.subplots(figsize=(7.2, 0.7 + 0.24 * len(comparisons)))
    for row, each in enumerate(reversed(comparisons)):
        gains = sorted(ratio if each.more_is_better else 1 / ratio for ratio in each.ratios)
        axes.plot((gains[0], gains[-1]), (row, row), color=OTHER, linewidth=1.5)
        axes.plot(statistics.median(gains), row, "o", color=OURS)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}x")
    axes.set_yticks(range(len(comparisons)))
    axes.set_yticklabels([f"{each.work}, {each.unit}" for each in reversed(comparisons)])
    axes.set_xlabel(f"times better than {comparisons[0].reference} (median and range of rounds)")
    axes.set_xlim(min(0.45, axes.get_xlim()[0]), max(2.2, axes.get_xlim()[1]))
    axes.set_ylim(-0.6, len(comparisons) - 0.4)
    return save(figure, docs, name)


def plot_growths(docs: Path, name: str, growths: Sequence[Growth]) -> str:
    """One small plot a cost, both axes logarithmic."""
    columns = 2
    rows = (len(growths) + 1) // columns
    figure, grid = plt.subplots(rows, columns, figsize=(7.2, 2.2 * rows), squeeze=False)
    for axes, each in zip(grid.flat, growths, strict=False):
        axes.loglog(*zip(*each.points, strict=True), "o-", color=OURS, linewidth=1.2, markersize=4)
        highest, lowest = (pick(cost for _, cost in each.points) for pick in (max, min))
        axes.set_ylim(lowest / 3, highest * 3)
        axes.set_title(each.work, fontsize=9)
        axes.set_xlabel(each.against)
        axes.set_ylabel(each.unit)
    for axes in list(grid.flat)[len(growths) :]:
        axes.set_visible(False)
    figure.tight_layout()
    return save(figure, docs, name)


def sentence(comparisons: Sequence[Comparison]) -> str:
    """Describe the plot, and name each figure that is not better."""
    worse = [each for each in comparisons if (each.ratio > 1) != each.more_is_better]
    better = len(comparisons) - len(worse)
    reference = comparisons[0].reference
    named = ", ".join(f"{each.work} ({each.unit}, {each.ratio:.2f} times)" for each in worse)
    said = "Right of the line is better: "
    if not worse:
        return f"{said}every figure is better than with {reference}."
    if not better:
        return f"{said}no figure is better than with {reference}: {named}."
    return (
        f"{said}{better} of {len(comparisons)} figures are better than with {reference};"
        f" these are not: {named}."
    )


def growth_sentence(each: Growth) -> str:
    """Describe a growth."""
    (first, cheap), (last, dear) = each.points[0], each.points[-1]
    more = number(last / first)
    return (
        f"{each.work}: {number(cheap)} {each.unit} at {first:,g} {each.against}, {number(dear)} at"
        f" {last:,.0f}: {number(each.factor)} times the cost for {more} times as much."
    )


def comparison_rows(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Every figure with its ratio: ours by the reference's, median and range of the rounds."""
    yield f"| Work | Unit | zkbroker | {comparisons[0].reference} | Ratio | Wanted |"
    yield "|---|---|---|---|---|---|"
    for each in comparisons:
        mine, theirs = statistics.median(each.ours), statistics.median(each.other)
        low, high = min(each.ratios), max(each.ratios)
        wanted = "more" if each.more_is_better else "less"
        yield (
            f"| {each.work} | {each.unit} | {number(mine)} | {number(theirs)} | {each.ratio:.2f}"
            f" ({low:.2f} to {high:.2f}) | {wanted} |"
        )


def number(value: float) -> str:
    """Return a number with three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def section(docs: Path, found: Found) -> Iterator[str]:
    """One benchmark as Markdown, a table and a plot for each reference."""
    heading, done = SECTIONS[found.name]
    yield f"## {heading}\n\n{done}\n"
    references = dict.fromkeys(each.reference for each in found.comparisons)
    for number, reference in enumerate(references):
        beside = [each for each in found.comparisons if each.reference == reference]
        image = plot_comparisons(docs, f"{found.name}-{number}" if number else found.name, beside)
        yield f"![{heading}: ratios to {reference}]({image})\n"
        yield sentence(beside) + "\n"
        yield "\n".join(comparison_rows(beside)) + "\n"
    if found.growths:
        image = plot_growths(docs, f"{found.name}-growth", found.growths)
        yield f"![{heading}: costs]({image})\n"
        for _, costs in groupby(found.growths, key=lambda each: each.against):
            yield "\n".join(f"- {growth_sentence(each)}" for each in costs)
        yield ""
    machine = found.machine
    before = machine.get("load before")
    yield (
        f"Measured {machine['day']} on {machine['cores']} cores ({machine['model']}), Python"
        f" {machine['python']}; load of the machine {machine['load']} meanwhile"
        + ("" if before is None else f", {before} before")
        + ".\n"
    )


def write_page(results: Path, docs: Path) -> Path:
    """Write the page of all existing results; return its path.

    Raises:
        ValueError: a file is not one of results; the message names it.
    """
    parts = [HEAD]
    with mpl.rc_context(STYLE):
        for name in SECTIONS:
            path = results / f"{name}.json"
            if path.exists():
                parts += section(docs, Found.load(path))
    page = docs / "performance.md"
    page.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")
    return page


HEAD = """# Performance

Each ratio is from one run in which both sides took turns: the median of the rounds, and their
range. Machines are shared and noisy, so that only ratios can be compared; measure them on yours.
`make bench` writes `bench/results`, this page and its plots; `make bench-quick OTHER=DIRECTORY`
compares two checkouts in three minutes.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("results", type=Path, nargs="?", default=ROOT / "bench" / "results")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="the manual's directory")
    given = parser.parse_args()
    print(write_page(given.results, given.docs))


if __name__ == "__main__":
    main()
