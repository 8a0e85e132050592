"""Two brokers on two cores compared with one: 16 KiB produces by plain sockets.

The same number of connections each time, each from its own process to its own partition, five
requests in flight: all to one broker, then shared between two. The two take turns. CPU is that of
the brokers; the clients need a part of the same cores.

    python -m bench.cores [--rounds 5] [--seconds 3] [--connections 2] [--magic 2] [--results DIR]
"""

import multiprocessing
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from bench.clusters import HERE, start_cluster
from bench.figures import Comparison, Found, cpu_seconds, options, publish
from bench.requests import WINDOW, Slice, produces
from zkbroker.registry.topics import create_topic
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

SIZE = 16 * 1024


class Served(NamedTuple):
    """A broker, for a client's process."""

    ports: Sequence[int]
    pids: Sequence[int]

    def create(self, topic: str) -> None: ...

    def remove(self, topic: str) -> None: ...


def send(broker: Served, magic: int, topic: str, seconds: float) -> Slice:
    return produces(SIZE, magic, WINDOW)(broker, topic, seconds)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--magic", type=int, choices=(0, 1, 2), default=2)
    given = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zkbroker-bench-")))
        connect = stack.enter_context(EmbeddedZooKeeper()).connect_string
        cluster = start_cluster(stack, directory, connect, HERE, 2)
        clients = stack.enter_context(multiprocessing.get_context("spawn").Pool(given.connections))
        for broker in (1, 2):
            for number in range(given.connections):
                topic = f"cores-{broker}-{number}"
                create_topic(cluster.session, topic, {0: [broker]})
                cluster.wait_led(topic, 1)

        def run(brokers: Sequence[int]) -> tuple[float, float]:
            """MB/s of all connections, and CPU-seconds of the brokers a GB."""
            work = []
            for number in range(given.connections):
                at = brokers[number % len(brokers)]
                served = Served([cluster.broker(at).port], [cluster.broker(at).pid])
                work.append((served, given.magic, f"cores-{at}-{number}", given.seconds))
            before = cpu_seconds(*cluster.pids)
            rate = sum(SIZE / each.wall_s / 1e6 for each in clients.starmap(send, work, 1))
            return rate, (cpu_seconds(*cluster.pids) - before) / (rate * given.seconds / 1e3)

        ways: tuple[tuple[int, ...], ...] = ((1, 2), (1,))
        found: list[list[tuple[float, float]]] = [[], []]
        for number in range(given.rounds + 1):
            for at in (0, 1) if number % 2 else (1, 0):
                result = run(ways[at])
                if number:  # the first round warms up
                    found[at].append(result)
    rates, costs = ([[each[at] for each in way] for way in found] for at in (0, 1))
    work = f"two brokers, {given.connections} connections of 16 KiB"
    comparisons = [
        Comparison(work, "MB/s", "one broker", *rates),
        Comparison(work, "CPU-s a GB", "one broker", *costs, more_is_better=False),
    ]
    publish(Found("cores", comparisons), given.results)


if __name__ == "__main__":
    main()
