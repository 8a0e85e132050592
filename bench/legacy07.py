"""Clients of Kafka 0.7 against newer ones at the same broker, and the cost of a view.

    python -m bench.legacy07 [--rounds 5] [--seconds 1]

The same messages of 100 bytes, uncompressed, are produced and fetched by plain sockets on both
listeners in turn: newer (a batch of magic 2, acks=1), 0.7 on a separate log, 0.7 on a view.
Produces of 0.7 have no answer: eight (one, if large) are followed by a request for the log's end,
which has one.
Reported: messages a second, medians, and ratios to the newer listener round by round. Nothing is
flushed meanwhile, so that the disk is not measured; a view costs its master's append, the
conversion, and a second file, so its produce is expected at about a half.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from bench.broker import auto_create
from bench.raw_socket import WINDOW, Client, fetch_request, produce_request, record_set
from zkbroker.cluster.process import BrokerProcess
from zkbroker.protocol.legacy07 import Fetch07, Offsets07, Produce07, encode_request
from zkbroker.records import iter_records
from zkbroker.records.legacy07 import build_message
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

TARGETS = {"0.7": 0.8}
SIZES = {"produce 16 KiB": (16 * 1024, 8), "produce 900 kB": (900_000, 1)}
"""Bytes of a set, and how many sets are sent before a 0.7 request with an answer."""


def frame(request: Produce07 | Fetch07 | Offsets07) -> bytes:
    """Return a request of 0.7 with its length."""
    body = encode_request(request)
    return len(body).to_bytes(4, "big") + body


def messages_of(size: int) -> int:
    """How many messages `produce_request` puts into a set of a size."""
    return sum(1 for _ in iter_records(record_set(2, size)))


def old_produce(topic: str, count: int, times: int = 1) -> bytes:
    """Return `times` sets of `count` messages, and a request that has an answer."""
    sets = build_message(b"x" * 100) * count
    return frame(Produce07(topic, 0, sets)) * times + frame(Offsets07(topic, 0, -2, 1))


def rate(client: Client, request: bytes, answers: int, messages: int, seconds: float) -> float:
    """Send a request over and over, a window of them in flight; returns messages a second."""
    started = time.perf_counter()
    for _ in range(WINDOW):
        client.socket.sendall(request)
    done = 0
    while time.perf_counter() - started < seconds:
        for _ in range(answers):
            client.answer()
        done += messages
        client.socket.sendall(request)
    for _ in range(WINDOW):
        for _ in range(answers):
            client.answer()
        done += messages
    return done / (time.perf_counter() - started)


def fetched(client: Client, request: bytes, bytes_each: float, seconds: float) -> float:
    """Fetch over and over; returns messages a second."""
    started = time.perf_counter()
    for _ in range(WINDOW):
        client.socket.sendall(request)
    moved = 0
    while time.perf_counter() - started < seconds:
        moved += client.answer()
        client.socket.sendall(request)
    for _ in range(WINDOW):
        moved += client.answer()
    return moved / bytes_each / (time.perf_counter() - started)


def measure(broker: BrokerProcess, old_port: int, rounds: int, seconds: float) -> None:
    port = broker.address[1]
    for name, (size, times) in SIZES.items():
        count = messages_of(size)
        found: dict[str, list[float]] = {"newer": [], "0.7": [], "0.7 view": []}
        for number in range(rounds):
            topic = f"newer-{size}-{number}"
            auto_create(port, topic)
            ways = {
                "newer": (port, produce_request(topic, 2, record_set(2, size)) * times, times),
                "0.7": (old_port, old_produce(f"apart-{size}-{number}", count, times), 1),
                "0.7 view": (old_port, old_produce(f"view-{size}-{number}", count, times), 1),
            }
            for way in sorted(ways, reverse=bool(number % 2)):
                to, request, answers = ways[way]
                client = Client(to)
                rate(client, request, answers, count * times, 0.05)
                found[way].append(rate(client, request, answers, count * times, seconds))
                client.socket.close()
        report(name, found)
    found = {"newer": [], "0.7": [], "0.7 view": []}
    count = messages_of(900_000)
    auto_create(port, "newer-fetch")
    whole = len(produce_request("newer-fetch", 2, record_set(2, 900_000))) / count
    one = len(build_message(b"x" * 100))
    for to, request in (
        (port, produce_request("newer-fetch", 2, record_set(2, 900_000))),
        (old_port, old_produce("apart-fetch", count)),
        (old_port, old_produce("view-fetch", count)),
    ):
        client = Client(to)
        for _ in range(5):
            client.socket.sendall(request)
            client.answer()
        client.socket.close()
    time.sleep(4)  # until they are flushed by time
    for number in range(rounds):
        old = {
            "0.7": frame(Fetch07("apart-fetch", 0, 0, 1 << 20)),
            "0.7 view": frame(Fetch07("view-fetch", 0, 0, 1 << 20)),
        }
        for way in sorted(found, reverse=bool(number % 2)):
            client = Client(port if way == "newer" else old_port)
            request = fetch_request("newer-fetch", 2) if way == "newer" else old[way]
            each = whole if way == "newer" else one
            found[way].append(fetched(client, request, each, seconds))
            client.socket.close()
    report("fetch 1 MiB", found)


def report(name: str, found: dict[str, list[float]]) -> None:
    newer = found["newer"]
    line = f"{name:15s} newer {statistics.median(newer):11,.0f} messages/s"
    for way in ("0.7", "0.7 view"):
        ratio = statistics.median(a / b for a, b in zip(found[way], newer, strict=True))
        target = f" (target {TARGETS[way]})" if way in TARGETS else ""
        line += f"   {way} {statistics.median(found[way]):11,.0f} ratio {ratio:.2f}{target}"
    print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="zkbroker-bench-") as directory,
        EmbeddedZooKeeper() as zookeeper,
    ):
        broker = BrokerProcess(
            Path(directory),
            {
                "broker.id": "0",
                "zookeeper.connect": zookeeper.connect_string + "/newer",
                "legacy07.listener": "127.0.0.1:0",
                "legacy07.log.dir": f"{directory}/legacy",
                "legacy07.topics": "view-.*",
                "legacy07.share.new.topics": "false",
                "log.flush.interval": str(10**9),
                "log.default.flush.scheduler.interval.ms": "500",
                "log.default.flush.interval.ms": str(10**9),
                "topic.flush.intervals.ms": "apart-fetch:500,view-fetch:500",
            },
        )
        broker.start()
        try:
            with ZkSession(zookeeper.connect_string + "/kafka07") as session:
                node = session.get("/brokers/ids/0")[0].decode()
            measure(broker, int(node.rpartition(":")[2]), given.rounds, given.seconds)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
