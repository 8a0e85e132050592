"""Compares zkbroker's broker with a genuine one and with a bare loop, request by request.

All run on this machine, each with its own data directory, and get the same kinds of requests over
the same plain sockets, slice by slice (`bench.requests`). The genuine one is Kafka 0.8.2.2 from the
jars of `make java-clients`, or any running broker that creates topics when asked for their
metadata. 0.8.2.2 supports only magic 0: requests of magic 2 to ours, idempotent or not, are
compared with its magic 0. `--magic` gives the magic of another broker. The bare loop is the least
that a gevent server can do (`bench.bare_loop`).

    python -m bench.broker [--rounds 5] [--seconds 1] [--only produce] [--results DIR]
                           [--port 9092 --pid 4711 --name "Kafka 2.3.0" --magic 2]
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bench.clusters import GENUINE, HERE, start_cluster
from bench.figures import Comparison, Found, options, resident_mb
from bench.raw_socket import WINDOW
from bench.requests import (
    CONSUMERS,
    Serving,
    Slice,
    Work,
    fetches,
    idempotent_produces,
    many,
    measure,
    produces,
    tail,
)
from tests.support import java_clients
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

CONNECTIONS = 16
CREATED_WITHIN_S = 30
WARM_UP_S = 5
"""Before measurements, since Java compiles code that runs often."""
KIB = 1024
SMALL, LARGE = 16 * KIB, 900_000


def auto_create(port: int, topic: str) -> None:
    """Ask for a topic's metadata, in a version of every broker, until it has a leader."""
    deadline = time.monotonic() + CREATED_WITHIN_S
    with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:
        while True:
            (answer,) = connection.request(MetadataRequest(topics=[topic]), 0).topics
            if answer.error_code == 0 and all(p.error_code == 0 for p in answer.partitions):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not created: error {answer.error_code}")
            time.sleep(0.1)


class Other(NamedTuple):
    """A server that is not a cluster of ours; a metadata request creates a topic, which stays."""

    ports: Sequence[int]
    pids: Sequence[int]
    topics: bool = True

    def create(self, topic: str) -> None:
        if self.topics:
            auto_create(self.ports[0], topic)

    def remove(self, topic: str) -> None:
        """Do nothing: other brokers delete later, which would disturb later slices."""


def bare_loop(stack: ExitStack, directory: Path) -> Other:
    """Start the loop, which has no topics."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.bare_loop", str(directory / "bare")],
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    assert process.stdout is not None
    return Other([int(process.stdout.readline())], [process.pid], topics=False)


class Kind(NamedTuple):
    """A kind of requests: ours, theirs, bytes of one, and the figures to report."""

    ours: Work
    theirs: Work
    size: int
    figures: Sequence[str]


def kinds(magic: int) -> dict[str, Kind]:
    """Name → kind; the other broker gets messages of this magic where ours gets magic 2."""
    throughput, waits = ("MB/s", "CPU-s a GB"), ("p50 ms", "p99 ms")
    small, newest = produces(SMALL, 0, WINDOW), produces(SMALL, magic, WINDOW)
    idempotent = newest if magic < 2 else idempotent_produces(SMALL)
    round_trip = produces(KIB, 0, 1)
    return {
        "produce 16 KiB, magic 2": Kind(produces(SMALL, 2, WINDOW), newest, SMALL, throughput),
        "produce 16 KiB, idempotent": Kind(
            idempotent_produces(SMALL), idempotent, SMALL, throughput
        ),
        "produce 16 KiB, magic 0": Kind(small, small, SMALL, throughput),
        "produce 900 kB, magic 0": Kind(
            *(produces(LARGE, 0, WINDOW),) * 2, size=LARGE, figures=throughput
        ),
        f"produce 16 KiB, {CONNECTIONS} connections": Kind(
            *(many(CONNECTIONS, SMALL, 0),) * 2, size=SMALL, figures=throughput
        ),
        "round trip 1 KiB, magic 2": Kind(produces(KIB, 2, 1), produces(KIB, magic, 1), KIB, waits),
        "round trip 1 KiB, magic 0": Kind(round_trip, round_trip, KIB, waits),
        "fetch 1 MiB": Kind(*(fetches(0, KIB * KIB),) * 2, size=KIB * KIB, figures=throughput),
        "fetch 16 KiB": Kind(*(fetches(0, SMALL),) * 2, size=SMALL, figures=throughput),
        f"100 B to {CONSUMERS} at the end": Kind(
            *(tail(CONSUMERS, 0),) * 2, size=100, figures=("fetches/s", "CPU µs a fetch")
        ),
    }


def bare_kinds() -> dict[str, Kind]:
    """The kinds that the bare loop supports."""
    throughput = ("MB/s", "CPU-s a GB")
    small, large, single = produces(SMALL, 2, WINDOW), fetches(2, KIB * KIB), produces(KIB, 2, 1)
    return {
        "produce 16 KiB": Kind(small, small, SMALL, throughput),
        "round trip 1 KiB": Kind(single, single, KIB, ("p50 ms", "p99 ms")),
        "fetch 1 MiB": Kind(large, large, KIB * KIB, throughput),
    }


FIGURES: dict[str, tuple[Callable[[Slice, int], float], bool]] = {
    "MB/s": (lambda of, size: size / of.wall_s / 1e6, True),
    "CPU-s a GB": (lambda of, size: of.cpu_us / size * 1e3, False),
    "p50 ms": (lambda of, _: of.p50_ms, False),
    "p99 ms": (lambda of, _: of.p99_ms, False),
    "fetches/s": (lambda of, _: 1 / of.wall_s, True),
    "CPU µs a fetch": (lambda of, _: of.cpu_us, False),
}
"""Unit → the figure of a slice, and whether more is better."""


def compare(
    ours: Serving, other: Serving, kinds: dict[str, Kind], name: str, given: argparse.Namespace
) -> list[Comparison]:
    """Send every kind to both in turn."""
    found = []
    for work, kind in kinds.items():
        if given.only not in work:
            continue
        turns = (kind.ours, kind.theirs)
        slices = measure((ours, other), turns, f"{work} {name}", given.rounds, given.seconds)
        for unit in kind.figures:
            figure, more_is_better = FIGURES[unit]
            mine, theirs = ([figure(each, kind.size) for each in side] for side in slices)
            found.append(Comparison(work, unit, name, mine, theirs, more_is_better))
            print(found[-1].line(), flush=True)
    return found


def warm_up(side: Serving, seconds: float) -> None:
    side.create("warm-up")
    produces(SMALL, 0, WINDOW)(side, "warm-up", seconds)
    fetches(0, SMALL)(side, "warm-up", seconds)
    side.remove("warm-up")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a slice")
    parser.add_argument("--only", default="", help="part of the name of the kinds to send")
    parser.add_argument("--port", type=int, help="of a broker that is running on this machine")
    parser.add_argument("--pid", type=int, help="its process")
    parser.add_argument("--name", default=GENUINE, help="what it is")
    parser.add_argument("--magic", type=int, choices=(0, 1, 2), default=0, help="newest it knows")
    given = parser.parse_args()
    if (given.port is None) != (given.pid is None):
        parser.error("--port and --pid go together")
    found: list[Comparison] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zkbroker-bench-")))
        connect = stack.enter_context(EmbeddedZooKeeper()).connect_string
        ours: Serving = start_cluster(stack, directory, connect, HERE)
        other: Serving | None = None
        if given.port is not None:
            other = Other([given.port], [given.pid])
        elif java_clients.old_missing():
            print(f"without {GENUINE}, which is not here: make java-clients", flush=True)
        else:
            other = start_cluster(stack, directory, connect, None)
        for side in (other, ours):
            if side is not None:
                warm_up(side, min(WARM_UP_S, 5 * given.seconds))
        if other is not None:
            found += compare(ours, other, kinds(given.magic), given.name, given)
            mine, theirs = ([resident_mb(side.pids[0])] for side in (ours, other))
            memory = Comparison("memory after all of it", "MB resident", given.name, mine, theirs)
            found.append(replace(memory, more_is_better=False))
            print(found[-1].line(), flush=True)
        bare = bare_loop(stack, directory)
        found += compare(ours, bare, bare_kinds(), "a bare loop", given)
    if given.results is not None:
        Found("broker", found).save(given.results)


if __name__ == "__main__":
    main()
