"""The main job: publish an access log, stream it, load it into a lake, and account for every line.

Starts a cluster of three brokers on an embedded ZooKeeper. Two producers publish the lines, keyed
by client address; a group of consumers counts visits per member, while a third joins and the first
leaves; Spark loads the topic to Parquet by event hour. Another run goes on where the last one
stopped: only new lines of the log are published, streamed and loaded. After an interrupted run the
next one starts afresh. Exit status 1 when published, streamed and loaded lines differ, or the
counts per member do.
"""

import argparse
import logging
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from examples.demo import access_log, lake
from examples.demo.publish import make_producer, publish
from examples.demo.report import DATA, Outcome, show, show_next
from examples.demo.shipped import Shipped
from examples.demo.visits import Member, Visits
from zkbroker.admin.topics import create_topic
from zkbroker.client import Cluster, TopicPartition, ZooKeeperSource
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.cluster import ClusterProcesses
from zkbroker.consumer import LATEST_TIME
from zkbroker.errors import ZkbrokerError
from zkbroker.registry.groups import owners
from zkbroker.registry.partitions import partition_state
from zkbroker.registry.topics import assignment
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.zookeeper import ZkSession

TOPIC = "page-views"
GROUP = "visits"
PARTITIONS = 8
PRODUCERS = 2
GENERATED_EVENTS = 200_000
_OWNERS_TIMEOUT_S = 30.0
_STREAM_TIMEOUT_S = 120.0
_POLL_S = 0.05


def run(data: Path, log: Path, console: Console) -> Outcome:
    """Publish, stream and load the new lines of a log.

    Args:
        data: directory of the cluster, the lake and the record of published lines.
        log: an access log in combined format.
        console: for the progress bars.
    """
    outcome = Outcome()
    memory = data / "published.json"
    unfinished = data / "unfinished"
    if unfinished.exists():
        console.print(f"the last run was interrupted: starting afresh in {data}")
        for part in ("cluster", "lake"):
            shutil.rmtree(data / part, ignore_errors=True)
        memory.unlink(missing_ok=True)
    unfinished.touch()
    shipped = Shipped.load(memory)
    lines = list(access_log.read(log, shipped.position_in(log)))
    outcome.lines = len(lines)
    outcome.total_lines = shipped.lines + len(lines)
    runtime = get_runtime("gevent")
    columns = (
        TextColumn("{task.description:24}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        ClusterProcesses(data / "cluster", brokers=3) as cluster,
        Progress(*columns, console=console) as progress,
    ):
        _stream_while_publishing(cluster, lines, runtime, progress, outcome)
        shipped.after(log, len(lines)).save(memory)
        loading = progress.add_task("loaded by Spark", total=len(lines))
        started = time.monotonic()

        def advance(made: lake.Progress) -> None:
            doing = "starting Spark …" if made.stage == "start" else "loaded by Spark"
            progress.update(loading, description=doing, completed=made.rows)

        loaded = lake.load(cluster.zookeeper, TOPIC, data, advance)
        progress.update(loading, completed=loaded.rows)
        outcome.load_s = time.monotonic() - started
        outcome.loaded, outcome.files = loaded.rows, len(loaded.files)
    merged = lake.merge(data)
    outcome.files_before, outcome.files_after = merged.before, merged.after
    counts = lake.visits(data)
    outcome.answers = lake.answers(data).most_common()
    outcome.total_loaded = counts.total()
    _check(outcome, counts, lines)
    if not outcome.problems:
        unfinished.unlink()
    return outcome


def _stream_while_publishing(
    cluster: ClusterProcesses,
    lines: list[bytes],
    runtime: Runtime,
    progress: Progress,
    outcome: Outcome,
) -> None:
    with ExitStack() as opened:
        session = opened.enter_context(ZkSession(cluster.zookeeper, runtime=runtime))
        _make_topic(session, runtime)
        visits = Visits(_end_offsets(session, runtime))

        def member(number: int) -> Member:
            return Member(f"consumer-{number}", cluster.zookeeper, GROUP, TOPIC, visits, runtime)

        def await_owners(moment: str, members: int) -> None:
            outcome.owners[moment] = _wait_for_owners(session, members, runtime)

        producers = [
            opened.enter_context(make_producer(cluster.zookeeper, runtime))
            for _ in range(PRODUCERS)
        ]
        group = [member(1), member(2)]
        await_owners("2 consumers", 2)
        publishing = progress.add_task("published by 2 producers", total=len(lines))
        streaming = progress.add_task("streamed by the group", total=len(lines))
        started = time.monotonic()
        third = len(lines) // 3

        def publish_part(part: list[bytes]) -> None:
            publish(
                part,
                topic=TOPIC,
                producers=producers,
                runtime=runtime,
                advance=_follow(progress, publishing, streaming, visits),
            )
            outcome.published += len(part)

        publish_part(lines[:third])
        while_joining = _Publishing(runtime, publish_part, lines[third : 2 * third])
        group.append(member(3))
        await_owners("a third joined", 3)
        while_joining.finish()
        while_leaving = _Publishing(runtime, publish_part, lines[2 * third :])
        group.pop(0).leave()
        await_owners("the first left", 2)
        while_leaving.finish()
        outcome.publish_s = time.monotonic() - started
        deadline = time.monotonic() + _STREAM_TIMEOUT_S
        while visits.unique < outcome.published and time.monotonic() < deadline:
            progress.update(streaming, completed=visits.unique)
            runtime.sleep(_POLL_S)
        progress.update(streaming, completed=visits.unique)
        outcome.stream_s = time.monotonic() - started
        for consumer in group:
            consumer.leave()
        outcome.streamed, outcome.repeated = visits.unique, visits.repeated
        outcome.members = visits.by_member.most_common(10)
        if visits.by_member != Counter(map(access_log.member, lines)):
            outcome.problems.append("the visits per member streamed are not those in the log")


class _Publishing:
    """Publishes in the background; `finish` waits for the end and raises any error."""

    def __init__(
        self, runtime: Runtime, publish_part: Callable[[list[bytes]], None], part: list[bytes]
    ) -> None:
        self._error: Exception | None = None
        self._task = runtime.spawn(self._run, publish_part, part, name="publish")

    def _run(self, publish_part: Callable[[list[bytes]], None], part: list[bytes]) -> None:
        try:
            publish_part(part)
        except Exception as error:  # noqa: BLE001 - raised by finish
            self._error = error

    def finish(self) -> None:
        self._task.join()
        if self._error is not None:
            raise self._error


def _follow(
    progress: Progress, publishing: TaskID, streaming: TaskID, visits: Visits
) -> Callable[[int], None]:
    def advance(lines: int) -> None:
        progress.advance(publishing, lines)
        progress.update(streaming, completed=visits.unique)

    return advance


def _make_topic(session: ZkSession, runtime: Runtime) -> None:
    if assignment(session, TOPIC) is None:
        # Messages have the times of their events, which may be years ago; retention by time would
        # delete them at once.
        create_topic(
            session,
            TOPIC,
            partitions=PARTITIONS,
            replication_factor=3,
            config={"retention.ms": "-1"},
        )
    deadline = time.monotonic() + _OWNERS_TIMEOUT_S
    for partition in range(PARTITIONS):
        while partition_state(session, TOPIC, partition) is None:
            if time.monotonic() > deadline:
                raise ZkbrokerError(f"no broker serves {TOPIC}-{partition}")
            runtime.sleep(_POLL_S)


def _end_offsets(session: ZkSession, runtime: Runtime) -> dict[int, int]:
    wanted = {TopicPartition(TOPIC, partition): LATEST_TIME for partition in range(PARTITIONS)}
    with Cluster(ZooKeeperSource(session=session), runtime=runtime) as cluster:
        ends = resolve_or_end(cluster, wanted, timeout_s=_OWNERS_TIMEOUT_S)
    return {partition: end for (_, partition), end in ends.items()}


def _wait_for_owners(session: ZkSession, members: int, runtime: Runtime) -> dict[int, str]:
    deadline = time.monotonic() + _OWNERS_TIMEOUT_S
    while True:
        owned = owners(session, GROUP, TOPIC)
        # An owner is `consumer id-thread`.
        owning = {owner.rpartition("-")[0] for owner in owned.values()}
        if len(owned) == PARTITIONS and len(owning) == members:
            return dict(sorted(owned.items()))
        if time.monotonic() > deadline:
            raise ZkbrokerError(f"the partitions are not shared among {members} consumers: {owned}")
        runtime.sleep(_POLL_S)


def _check(outcome: Outcome, counts: Counter[bytes], lines: list[bytes]) -> None:
    figures = (outcome.lines, outcome.published, outcome.streamed, outcome.loaded)
    if len(set(figures)) != 1:
        outcome.problems.append("lines read, published, streamed and loaded differ")
    if outcome.total_loaded != outcome.total_lines:
        outcome.problems.append(
            f"the lake holds {outcome.total_loaded} rows, not the {outcome.total_lines} published"
        )
    if outcome.total_lines == outcome.lines and counts != Counter(map(access_log.member, lines)):
        outcome.problems.append("the visits per member loaded are not those in the log")


def main() -> int:
    """Run the demo and print its account."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=Path, default=DATA, help="working directory")
    parser.add_argument("--input", type=Path, help="an access log in combined format")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    console = Console()
    data: Path = arguments.data.resolve()
    data.mkdir(parents=True, exist_ok=True)
    log: Path | None = arguments.input
    if log is not None and not log.is_file():
        console.print(f"[red]no access log at {log}[/]; give a file: make demo INPUT=access.log")
        return 2
    try:
        if log is None:
            log = data / "page-views.log"
            access_log.generate(log, GENERATED_EVENTS)
        outcome = run(data, log, console)
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return 130
    except ZkbrokerError as error:
        console.print(f"[red]error:[/] {error}")
        return 1
    show(outcome, console)
    if not outcome.problems:
        show_next(data, TOPIC, arguments.input)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
