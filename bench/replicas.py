"""`acks=all` with three replicas on three brokers, against three genuine ones.

Produces of version 0 with acks=-1, as clients of the 0.8 years send them, by plain sockets. Batches
of 16 KiB go to all three leaders, five connections each, one request of each in flight; then there
are single messages of 1 KiB, one request or five in flight on one connection. CPU is that of all
three brokers. The clusters take turns, slice by slice.

    python -m bench.replicas [--rounds 5] [--seconds 2] [--only batches] [--results DIR]
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.broker import FIGURES, KIB, SMALL, WARM_UP_S
from bench.clusters import GENUINE, HERE, need_genuine, start_cluster
from bench.figures import Comparison, Found, options, publish
from bench.raw_socket import WINDOW, Client, one_message, produce_request
from bench.requests import Serving, Slice, Work, many, measure, same, stream
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

BROKERS, CONNECTIONS = 3, 15


def singly(window: int) -> Work:
    """One message a request, to the first partition."""

    def run(brokers: Serving, topic: str, seconds: float) -> Slice:
        request = produce_request(topic, 0, one_message(0, KIB), acks=-1)
        return stream(same(request), window)(brokers, topic, seconds)

    return run


def copied(work: Work) -> Work:
    """Begin once followers copy the topic: when a message of each partition was acknowledged by
    all.
    """

    def run(brokers: Serving, topic: str, seconds: float) -> Slice:
        for partition, port in enumerate(brokers.ports):
            client = Client(port)
            request = produce_request(topic, 0, one_message(0, KIB), partition, acks=-1)
            client.socket.sendall(request)
            client.answer()
            client.socket.close()
        return work(brokers, topic, seconds)

    return run


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a slice")
    parser.add_argument("--only", default="", help="part of the name of the kinds to send")
    given = parser.parse_args()
    need_genuine()
    figures = FIGURES | {
        "requests/s": (lambda of, _: 1 / of.wall_s, True),
        "CPU µs a request": (lambda of, _: of.cpu_us, False),
    }
    waits = ("p50 ms", "p99 ms")
    kinds: dict[str, tuple[Work, int, tuple[str, ...]]] = {
        "batches of 16 KiB": (
            many(CONNECTIONS, SMALL, 0, acks=-1),
            SMALL,
            ("MB/s", "CPU-s a GB", *waits),
        ),
        "1 KiB, one in flight": (singly(1), KIB, (*waits, "CPU µs a request")),
        "1 KiB, five in flight": (singly(WINDOW), KIB, ("requests/s", "CPU µs a request")),
    }
    found: list[Comparison] = []
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zkbroker-bench-")))
        connect = stack.enter_context(EmbeddedZooKeeper()).connect_string
        clusters = [
            start_cluster(stack, directory, connect, each, BROKERS) for each in (HERE, None)
        ]
        for side in clusters:
            side.create("warm-up")
            side.wait_in_sync("warm-up", BROKERS)
            for work in (many(CONNECTIONS, SMALL, 0, acks=-1), singly(1)):
                work(side, "warm-up", min(WARM_UP_S, 5 * given.seconds))
        for name, (work, size, units) in kinds.items():
            if given.only not in name:
                continue
            slices = measure(clusters, (copied(work),) * 2, name, given.rounds, given.seconds)
            for unit in units:
                figure, more_is_better = figures[unit]
                mine, theirs = ([figure(each, size) for each in side] for side in slices)
                found.append(Comparison(name, unit, GENUINE, mine, theirs, more_is_better))
    publish(Found("replicas", found), given.results)


if __name__ == "__main__":
    main()
