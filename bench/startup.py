"""Restart to serving, and a new topic to its first message, beside another version of zkbroker.

Both versions run the same on one machine, turn by turn: a broker with topics of one partition is
stopped cleanly and started again, until every partition of it is led; then topics are created, each
until its first produce is acknowledged. Medians, in milliseconds, and their ratios. The other
version is a directory with its sources, built in place where it has C code.

    git worktree add /tmp/before v0.1.0 && (cd /tmp/before && python setup.py build_ext --inplace)
    python -m bench.startup /tmp/before [--topics 200] [--created 30] [--rounds 5]
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest, MetadataRequest, ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.records import encode_message_set
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

READY = "zkbroker broker ready "
WITHIN_S = 60
LOOK_S = 0.001


class Version:
    """A broker of one version, in a chroot and a directory of its own."""

    def __init__(self, name: str, sources: Path, directory: Path, zookeeper: str) -> None:
        self.name = name
        self.port = 0
        self._sources = sources
        self._properties = directory / f"{name}.properties"
        self._settings = {
            "broker.id": "0",
            "host.name": "127.0.0.1",
            "log.dirs": str(directory / name),
            "zookeeper.connect": f"{zookeeper}/{name}",
        }
        self._log = directory / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        settings = self._settings | {"port": str(self.port)}
        self._properties.write_text("".join(f"{k}={v}\n" for k, v in settings.items()))
        command = [sys.executable, "-P", "-m", "zkbroker.cli", "broker", str(self._properties)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--stop-with-stdin"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"PYTHONPATH": str(self._sources)},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith(READY):
            raise RuntimeError(f"{self.name} did not start:\n{self._log.read_text()[-2000:]}")
        self.port = int(line.rpartition(":")[2])

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=WITHIN_S)

    def connect(self) -> BrokerConnection:
        return BrokerConnection(get_runtime("threads"), "127.0.0.1", self.port)


def create(connection: BrokerConnection, topics: list[str]) -> None:
    asked = [NewTopic(name, 1, 1, [], []) for name in topics]
    answer = connection.request(CreateTopicsRequest(topics=asked, timeout_ms=30_000), 0)
    codes = {each.error_code for each in answer.topics}
    if codes != {0}:
        raise RuntimeError(f"topics were not created: errors {codes}")


def all_led(connection: BrokerConnection, topics: list[str]) -> bool:
    answer = connection.request(MetadataRequest(topics=topics), 0)
    return all(
        topic.error_code == 0 and all(each.leader == 0 for each in topic.partitions)
        for topic in answer.topics
    )


def until_led(version: Version, topics: list[str]) -> None:
    deadline = time.monotonic() + WITHIN_S
    with version.connect() as connection:
        while not all_led(connection, topics):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{version.name}: not every partition is led")
            time.sleep(LOOK_S)


def restart(version: Version, topics: list[str]) -> float:
    """Stop and start a broker; the milliseconds from its start until all is led."""
    version.stop()
    started = time.perf_counter()
    version.start()
    until_led(version, topics)
    return (time.perf_counter() - started) * 1000


def first_message(version: Version, topic: str) -> float:
    """Create a topic; the milliseconds until a message in it is acknowledged."""
    data = encode_message_set([(None, b"first", 1_700_000_000_000, ())])
    request = ProduceRequest(
        acks=1, topics=[ProduceRequestTopic(topic, [ProduceRequestPartition(0, data)])]
    )
    with version.connect() as connection:
        started = time.perf_counter()
        create(connection, [topic])
        while connection.request(request).topics[0].partitions[0].error_code:
            if time.perf_counter() - started > WITHIN_S:
                raise TimeoutError(f"{version.name}: {topic} takes nothing")
            time.sleep(LOOK_S)
        return (time.perf_counter() - started) * 1000


def compare(one: Version, other: Version, topics: int, created: int, rounds: int) -> None:
    names = [f"t{number}" for number in range(topics)]
    starts: dict[Version, list[float]] = {one: [], other: []}
    firsts: dict[Version, list[float]] = {one: [], other: []}
    for version in (one, other):
        version.start()
        with version.connect() as connection:
            create(connection, names)
        until_led(version, names)
    for number in range(rounds):
        turn = (one, other) if number % 2 else (other, one)
        for version in turn:
            starts[version].append(restart(version, names))
        for each in range(created):
            for version in turn:
                firsts[version].append(first_message(version, f"new-{number}-{each}"))
    for title, found in ((f"restart, {topics} topics", starts), ("topic to message", firsts)):
        here, there = (statistics.median(found[version]) for version in (one, other))
        print(f"{title:24} {here:8.1f} ms   the other {there:8.1f} ms   ratio {there / here:.2f}")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("other", type=Path, help="directory with the other version's sources")
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--created", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    with (
        tempfile.TemporaryDirectory(prefix="startup-") as name,
        EmbeddedZooKeeper() as zookeeper,
    ):
        directory, at = Path(name), zookeeper.connect_string
        versions = (
            Version("this", here, directory, at),
            Version("other", options.other.resolve(), directory, at),
        )
        try:
            compare(*versions, options.topics, options.created, options.rounds)
        finally:
            for version in versions:
                version.stop()


if __name__ == "__main__":
    main()
