"""The account of a run, and its output for people."""

import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

DATA = Path("demo-data")


@dataclass
class Outcome:
    """The outcome of one run; `problems` is empty when every line is accounted for."""

    lines: int = 0
    published: int = 0
    streamed: int = 0
    repeated: int = 0
    loaded: int = 0
    total_lines: int = 0
    total_loaded: int = 0
    files: int = 0
    files_before: int = 0
    files_after: int = 0
    publish_s: float = 0.0
    stream_s: float = 0.0
    load_s: float = 0.0
    members: list[tuple[bytes, int]] = field(default_factory=list)
    answers: list[tuple[int, int]] = field(default_factory=list)
    owners: dict[str, dict[int, str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def show(outcome: Outcome, console: Console) -> None:
    """Print how many lines were read, published, streamed and loaded, and how fast."""
    console.print(_figures(outcome), _owners(outcome), _members(outcome), _answers(outcome))
    if outcome.repeated:
        console.print(
            f"{outcome.repeated} messages came twice around the rebalances (at least once)."
        )
    for problem in outcome.problems:
        console.print(f"[red]wrong:[/] {problem}")
    if not outcome.problems:
        console.print(
            f"[green]every line is accounted for:[/] {outcome.published} published = "
            f"{outcome.streamed} streamed = {outcome.loaded} loaded"
        )


def show_next(data: Path, topic: str, log: Path | None) -> None:
    """Print the location of the data, and commands to try.

    Args:
        data: the demo's directory.
        topic: of the messages.
        log: the given access log, None for the generated one.
    """
    here = shell_path(data)
    tools = shell_path(Path(sys.executable).parent)
    again = "make demo"
    if log is not None:
        again += f" INPUT={shell_path(log)}"
    if data != DATA.resolve():
        again += f" DATA={here}"
    # Plain lines: a terminal must not break a path, so that it can be copied.
    print(
        f"""
The lake is in {here}/lake, a Delta table by event hour. Try next:
  {tools}/zkbroker-load status --output {here}/lake
  {tools}/zkbroker-load verify --output {here}/lake
  {tools}/zkbroker-load files --output {here}/lake
  {tools}/zkbroker up --brokers 3 --port 9092 --data {here}/cluster
  {tools}/zkbroker consume -b 127.0.0.1:9092 -t {topic} -o beginning -c 5   # while it is up
  {again}   # again: only new lines of the log are published, streamed and loaded"""
    )


def shell_path(path: Path) -> str:
    """Return a path for a shell, relative if it is below the working directory."""
    absolute = path.absolute()
    below = absolute.is_relative_to(Path.cwd())
    return shlex.quote(str(absolute.relative_to(Path.cwd()) if below else absolute))


def _figures(outcome: Outcome) -> Table:
    table = Table("", "lines", "seconds", "lines/s", title="This run")
    for column in table.columns[1:]:
        column.justify = "right"
    rows = (
        ("read from the log", outcome.lines, 0.0),
        ("published", outcome.published, outcome.publish_s),
        ("streamed", outcome.streamed, outcome.stream_s),
        ("loaded", outcome.loaded, outcome.load_s),
    )
    for name, lines, seconds in rows:
        table.add_row(
            name,
            f"{lines:,}",
            f"{seconds:.1f}" if seconds else "",
            f"{lines / seconds:,.0f}" if seconds else "",
        )
    table.add_row("files written", f"{outcome.files:,}", "", "")
    table.add_row("files in the lake", f"{outcome.files_before:,}", "", "")
    table.add_row("… after optimize", f"{outcome.files_after:,}", "", "")
    table.add_row("in the lake, all runs", f"{outcome.total_loaded:,}", "", "")
    return table


def _owners(outcome: Outcome) -> Table:
    table = Table("partition", *outcome.owners, title="Owners")
    partitions = sorted({p for owned in outcome.owners.values() for p in owned})
    for partition in partitions:
        table.add_row(
            str(partition), *(owned.get(partition, "-") for owned in outcome.owners.values())
        )
    return table


def _members(outcome: Outcome) -> Table:
    table = Table("member", "visits", title="Top members")
    table.columns[1].justify = "right"
    for member, visits in outcome.members:
        table.add_row(member.decode("ascii", "replace"), f"{visits:,}")
    return table


def _answers(outcome: Outcome) -> Table:
    table = Table("status", "lines", title="Answers, by the lake's columns")
    for column in table.columns:
        column.justify = "right"
    for status, lines in outcome.answers:
        table.add_row(str(status), f"{lines:,}")
    return table
