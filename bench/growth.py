"""How costs grow: partitions, connections, sizes of messages and logs, members of a group.

    python -m bench.growth [--rounds 3] [--only partitions] [--small] [--results DIR]

A good design costs the same with one partition as with thousands, and for each byte the same in
messages of any size. The cost is CPU time of the broker's process for each request (all threads),
which other load on the machine disturbs least; sizes take turns in every round.
"""

import itertools
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench import controller, log_open, rebalance
from bench.figures import Found, Growth, cpu_seconds, options, publish, resident_mb
from bench.raw_socket import Client
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import RequestHeader, encode_request
from zkbroker.protocol.messages import CreateTopicsRequest, ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.records import encode_message_set
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

REQUESTS = 3000
SIZES: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "sizes": ((10, 100, 1_000, 10_000, 100_000, 1_000_000), (10, 1_000, 100_000)),
    "connections": ((1, 10, 100, 1000, 5000), (1, 10)),
    "partitions": ((1, 10, 100, 1000, 4000), (1, 10)),
    "logs": ((0.1, 1, 10), (0.1, 0.2)),
    "members": ((1, 2, 4, 8, 16), (1, 2)),
    "controller": ((1000, 2000, 4000), (10, 20)),
}
"""Kind → sizes as measured, and small sizes that only check that it works."""
CPU = "µs of broker CPU a request"
TOPIC = "growth"


def produce(partition: int, size: int) -> bytes:
    """One message of `size` bytes as a request."""
    data = encode_message_set([(None, b"x" * size, 1_700_000_000_000, ())])
    request = ProduceRequest(
        topics=[ProduceRequestTopic(TOPIC, [ProduceRequestPartition(partition, data)])]
    )
    return b"".join(encode_request(RequestHeader(0, 7, 1, "bench"), request))  # type: ignore[arg-type]


@contextmanager
def broker(zookeeper: str, directory: Path, partitions: int) -> Iterator[BrokerProcess]:
    """A broker with one topic."""
    directory.mkdir()
    chroot = f"{zookeeper}/{directory.name}"
    process = BrokerProcess(directory, {"broker.id": "0", "zookeeper.connect": chroot})
    process.start()
    try:
        with BrokerConnection(
            get_runtime("threads"), "127.0.0.1", process.address[1], request_timeout_ms=120_000
        ) as connection:
            asked = [NewTopic(TOPIC, partitions, 1, [], [])]
            answer = connection.request(CreateTopicsRequest(topics=asked, timeout_ms=100_000))
            if answer.topics[0].error_code:
                raise RuntimeError(f"{partitions} partitions: error {answer.topics[0].error_code}")
        yield process
    finally:
        process.stop()


def cost_us(process: BrokerProcess, requests: Sequence[bytes], count: int = REQUESTS) -> float:
    """Broker CPU for each of `count` requests, one connection, five in flight."""
    assert process.pid is not None
    client = Client(process.address[1])
    turn = itertools.cycle(requests)
    for _ in range(50):
        client.socket.sendall(next(turn))
        client.answer()
    started = cpu_seconds(process.pid)
    for _ in range(5):
        client.socket.sendall(next(turn))
    for _ in range(count - 5):
        client.answer()
        client.socket.sendall(next(turn))
    for _ in range(5):
        client.answer()
    spent = cpu_seconds(process.pid) - started
    client.socket.close()
    return spent / count * 1e6


def medians(
    sizes: Sequence[float], rounds: int, measure: Callable[[int], float]
) -> list[tuple[float, float]]:
    """Measure every size, by its index, once a round."""
    found: list[list[float]] = [[] for _ in sizes]
    for number in range(rounds):
        order = range(len(sizes))
        for index in order if number % 2 else reversed(order):
            found[index].append(measure(index))
    return [(size, statistics.median(costs)) for size, costs in zip(sizes, found, strict=True)]


def by_partitions(
    zookeeper: str, directory: Path, rounds: int, sizes: Sequence[int]
) -> list[Growth]:
    """One broker for each size, all at once; requests go to a hundred of its partitions in turn."""
    with ExitStack() as stack:
        brokers = [
            stack.enter_context(broker(zookeeper, directory / f"partitions-{count}", count))
            for count in sizes
        ]
        requests = [
            [produce(number, 1000) for number in range(0, count, max(1, count // 100))]
            for count in sizes
        ]
        points = medians(sizes, rounds, lambda index: cost_us(brokers[index], requests[index]))
        resident = [
            (float(count), resident_mb(process.pid or 0))
            for count, process in zip(sizes, brokers, strict=True)
        ]
    return [
        Growth("produce 1 kB", CPU, "partitions of the broker", points),
        Growth("a broker at rest", "MB resident", "partitions of the broker", resident, "linear"),
    ]


def by_connections(
    zookeeper: str, directory: Path, rounds: int, sizes: Sequence[int]
) -> list[Growth]:
    """Idle connections beside the working one, opened and closed in each round."""
    request = [produce(0, 1000)]
    with broker(zookeeper, directory / "connections", 1) as process:

        def measure(index: int) -> float:
            idle = [Client(process.address[1]) for _ in range(sizes[index] - 1)]
            try:
                return cost_us(process, request)
            finally:
                for each in idle:
                    each.socket.close()

        points = medians(sizes, rounds, measure)
    return [Growth("produce 1 kB", CPU, "open connections", points)]


def by_size(zookeeper: str, directory: Path, rounds: int, sizes: Sequence[int]) -> list[Growth]:
    """One message a request."""
    with broker(zookeeper, directory / "sizes", 1) as process:
        requests = [[produce(0, size)] for size in sizes]
        counts = [REQUESTS if size <= 10_000 else REQUESTS // 10 for size in sizes]
        points = medians(
            sizes, rounds, lambda index: cost_us(process, requests[index], counts[index])
        )
    per_gb = [(size, cost * 1e3 / size) for size, cost in points if size >= 1_000]
    return [
        Growth("produce one message", CPU, "bytes of the message", points, "linear"),
        Growth("produce one message", "CPU-s a GB", "bytes of the message", per_gb),
    ]


def by_log(rounds: int, sizes: Sequence[float]) -> list[Growth]:
    """One log of a size: its opening after a clean stop, and a look-up in it."""
    runs = {size: [log_open.measured(size) for _ in range(rounds)] for size in sizes}

    def points(figure: str, factor: float) -> list[tuple[float, float]]:
        return [
            (size, statistics.median(run[figure] for run in found) * factor)
            for size, found in runs.items()
        ]

    return [
        Growth("open a log that was stopped cleanly", "ms of CPU", "GB", points("open_cpu_s", 1e3)),
        Growth("look an offset up", "µs of CPU", "GB", points("lookup_cpu_us", 1)),
    ]


def by_members(zookeeper: str, rounds: int, sizes: Sequence[int]) -> list[Growth]:
    """Members of a group in ZooKeeper, three partitions each: from a join until all are claimed."""
    points = []
    for members in sizes:
        connect = f"{zookeeper}/members-{members}"
        times, trip = rebalance.rounds_of(connect, members, 3 * members, rounds)
        points.append((float(members), statistics.median(times["join"]) / trip))
    return [Growth("a member joins", "reads of ZooKeeper long", "members", points, "linear")]


def main() -> None:
    parser = options(__doc__, rounds=3)
    parser.add_argument("--small", action="store_true", help="only check that it works")
    parser.add_argument("--only", default="", help=", ".join(SIZES))
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="zkbroker-bench-") as name,
        EmbeddedZooKeeper() as server,
    ):
        connect, directory, rounds = server.connect_string, Path(name), asked.rounds
        kinds: dict[str, Callable[[Any], list[Growth]]] = {
            "sizes": lambda sizes: by_size(connect, directory, rounds, sizes),
            "connections": lambda sizes: by_connections(connect, directory, rounds, sizes),
            "partitions": lambda sizes: by_partitions(connect, directory, rounds, sizes),
            "logs": lambda sizes: by_log(rounds, sizes),
            "members": lambda sizes: by_members(connect, rounds, sizes),
            "controller": lambda sizes: controller.by_partitions(connect, sizes, rounds),
        }
        growths = [
            growth
            for kind, measure in kinds.items()
            if asked.only in kind
            for growth in measure(SIZES[kind][asked.small])
        ]
    publish(Found("growth", growths=growths), asked.results)


if __name__ == "__main__":
    main()
