"""Several clusters, mirrors between them, and the mirrored messages."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.process import wait_until
from zkbroker.client import Cluster, StaticSource, ZooKeeperSource
from zkbroker.config.fetching import FetchSettings
from zkbroker.consumer import (
    EARLIEST_TIME,
    LATEST_TIME,
    AssignedConsumer,
    MessageAndMetadata,
    resolve_offsets,
)
from zkbroker.mirror import Mirror, MirrorConfig, SourceConfig, group_offsets
from zkbroker.testing import LocalCluster
from zkbroker.types import PartitionKey

CATCH_UP_S = 120


def source(
    cluster: LocalCluster, *, name: str = "", group: str = "mirror", coordinator: bool = False
) -> SourceConfig:
    """Return a source by either kind of group."""
    where = (
        {"bootstrap.servers": cluster.bootstrap_servers}
        if coordinator
        else {"zookeeper.connect": cluster.zookeeper}
    )
    return SourceConfig(properties={"group.id": group, **where}, name=name, label=name or "source")


def config(
    sources: Sequence[SourceConfig], target: LocalCluster | Mapping[str, str], **settings: str
) -> MirrorConfig:
    """Return the settings of a mirror; `_` stands for `.` in their names."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    to = (
        {"bootstrap.servers": target.bootstrap_servers}
        if isinstance(target, LocalCluster)
        else dict(target)
    )
    given.setdefault("start.timeout.ms", "60000")
    return MirrorConfig.from_properties(given, sources=sources, target=to)


def catch_up(mirror: Mirror, timeout_s: float = CATCH_UP_S) -> None:
    """Wait until all present messages of the sources have arrived."""
    ends = mirror.ends()
    assert wait_until(lambda: mirror.wait(0) or ends.left() == 0, timeout_s, 0.05), mirror.metrics()


@contextmanager
def caught_up(given: MirrorConfig) -> Iterator[Mirror]:
    """Mirror all present messages; the mirror is still open in the block."""
    with Mirror(given) as mirror:
        catch_up(mirror)
        yield mirror


def connect(where: str) -> Cluster:
    """Return a cluster by its brokers, or by a ZooKeeper with a chroot."""
    # A genuine 0.8.2 broker tells of no broker until there is a topic; ZooKeeper does.
    return Cluster(ZooKeeperSource(where) if "/" in where else StaticSource(where.split(",")))


def committed(given: SourceConfig, cluster: LocalCluster) -> dict[PartitionKey, int]:
    """Return the offsets that the group of a source has committed."""
    with connect(cluster.bootstrap_servers) as view:
        return group_offsets(given, view)


COMMITTED = FetchSettings(read_committed=True)


def read_all(
    bootstrap: str, topic: str, settings: FetchSettings | None = None
) -> dict[int, list[MessageAndMetadata]]:
    """Read a topic by partition; `COMMITTED` leaves out uncommitted messages."""
    with connect(bootstrap) as cluster:
        keys = [(topic, each.partition) for each in cluster.partitions(topic, timeout_s=60)]
        starts = resolve_offsets(cluster, dict.fromkeys(keys, EARLIEST_TIME), timeout_s=60)
        ends = resolve_offsets(cluster, dict.fromkeys(keys, LATEST_TIME), timeout_s=60)
        stops = {key: end or 0 for key, end in ends.items()}
        found: dict[int, list[MessageAndMetadata]] = {number: [] for _, number in keys}
        with AssignedConsumer(cluster, starts, stop=stops, settings=settings) as consumer:
            for message in consumer:
                found[message.partition].append(message)
        return found


def contents(bootstrap: str, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """Read the parts that a mirror keeps: key, value, timestamp, headers."""
    return {
        number: [(m.key, m.value, m.timestamp, m.headers) for m in messages]
        for number, messages in read_all(bootstrap, topic).items()
    }


def require_same(target: str, source: str, topic: str) -> None:
    """Compare the contents of a topic; the error counts messages instead of showing them."""
    mirrored, original = contents(target, topic), contents(source, topic)
    if mirrored == original:
        return
    report = []
    for number in sorted({*mirrored, *original}):
        there = [repr(each) for each in mirrored.get(number, ())]
        wanted = [repr(each) for each in original.get(number, ())]
        if there != wanted:
            pairs = enumerate(zip(there, wanted, strict=False))
            first = next((at for at, (one, other) in pairs if one != other), "end")
            missing = (Counter(wanted) - Counter(there)).total()
            added = (Counter(there) - Counter(wanted)).total()
            report.append(
                f"partition {number}: {len(there)} of {len(wanted)} messages, {missing} missing, "
                f"{added} more than once or unknown, the first difference at: {first}"
            )
    raise AssertionError(f"{topic} differs: {'; '.join(report)}")


class MirrorProcess:
    """`zkbroker mirror --config FILE` as a process, to be killed.

    Args:
        directory: for its property and log file.
        name: of both.
        properties: of the mirror, its sources and its target.
    """

    def __init__(self, directory: Path, name: str, properties: Mapping[str, str]) -> None:
        self._file = directory / f"{name}.properties"
        self._file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "zkbroker.cli",
                    "mirror",
                    "--config",
                    self._file,
                    *arguments,
                ],
                stdout=log,
                stderr=log,
            )

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(90)

    def stop(self, timeout_s: float = 60) -> int:
        """End it cleanly; returns its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout_s)

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
