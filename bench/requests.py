"""Broker CPU per request, and round trips: two checkouts compared, slice by slice.

Each checkout runs its own broker, with the interpreter of its own `.venv`, on one ZooKeeper. Every
kind of request is sent to one broker and then to the other, a slice of some tenths of a second
each, so that both run under the same conditions; the first one changes every round.
Reported: microseconds of CPU of the broker's process per request (user and system, all threads),
requests per second, p50 and p99 where one request at a time is in flight; medians over all rounds,
and the ratio second / first as the median of the rounds' ratios. CPU is steady even if the machine
is shared; times are not.

    python -m bench.requests [CHECKOUT [CHECKOUT]] [--rounds 5] [--seconds 1] [--only produce]
        [--json FILE]

Without a checkout this one is measured alone; with one, it is compared with this one.
"""

import argparse
import itertools
import json
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Protocol

from crc32c import crc32c

from bench.clusters import HERE, start_cluster
from bench.figures import cpu_seconds
from bench.raw_socket import WINDOW, Client, fetch_request, produce_request, record_set
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

CONSUMERS = 100


class Slice(NamedTuple):
    """The figures of one slice: CPU in µs and wall in s per request, latencies in ms."""

    cpu_us: float
    wall_s: float
    p50_ms: float
    p99_ms: float


class Serving(Protocol):
    """Brokers of any kind, for a benchmark: ports of the leaders of a topic's partitions."""

    @property
    def pids(self) -> Sequence[int]: ...

    @property
    def ports(self) -> Sequence[int]: ...

    def create(self, topic: str) -> None: ...

    def remove(self, topic: str) -> None: ...


Work = Callable[[Serving, str, float], Slice]
"""Sends requests of one kind to a topic for a number of seconds."""
Requests = Iterator[bytes]


def same(request: bytes) -> Requests:
    while True:
        yield request


def idempotent(topic: str, size: int, producer_id: int) -> Requests:
    """One producer's requests, with consecutive sequences."""
    batch = bytearray(record_set(2, size))
    (count,) = struct.unpack_from(">i", batch, 57)
    struct.pack_into(">qhi", batch, 43, producer_id, 0, 0)
    frame = bytearray(produce_request(topic, 2, bytes(batch)))
    start = len(frame) - len(batch)
    sequence = 0
    while True:
        struct.pack_into(">i", frame, start + 53, sequence)
        struct.pack_into(">I", frame, start + 17, crc32c(memoryview(frame)[start + 21 :]))
        yield bytes(frame)
        sequence = (sequence + count) % 2**31


def stream(requests: Requests, window: int) -> Work:
    """Send requests with a window of them in flight."""

    def run(broker: Serving, topic: str, seconds: float) -> Slice:
        client = Client(broker.ports[0])
        times = [time.perf_counter()]
        cpu = cpu_seconds(*broker.pids)
        for _ in range(window):
            client.socket.sendall(next(requests))
        while times[-1] - times[0] < seconds:
            client.answer()
            client.socket.sendall(next(requests))
            times.append(time.perf_counter())
        for _ in range(window):
            client.answer()
        times.append(time.perf_counter())
        cpu = cpu_seconds(*broker.pids) - cpu
        count = len(times) - 2 + window
        waits = sorted((after - before) * 1e3 for before, after in itertools.pairwise(times[:-1]))
        client.socket.close()
        return Slice(
            cpu / count * 1e6,
            (times[-1] - times[0]) / count,
            waits[len(waits) // 2],
            waits[len(waits) * 99 // 100],
        )

    return run


def produces(size: int, magic: int, window: int) -> Work:
    def run(broker: Serving, topic: str, seconds: float) -> Slice:
        request = produce_request(topic, magic, record_set(magic, size))
        return stream(same(request), window)(broker, topic, seconds)

    return run


def idempotent_produces(size: int) -> Work:
    ids = iter(range(10_000, 1_000_000))

    def run(broker: Serving, topic: str, seconds: float) -> Slice:
        return stream(idempotent(topic, size, next(ids)), WINDOW)(broker, topic, seconds)

    return run


def fill(broker: Serving, topic: str, magic: int, size: int, count: int) -> None:
    client = Client(broker.ports[0])
    request = produce_request(topic, magic, record_set(magic, size))
    for _ in range(count):
        client.socket.sendall(request)
        client.answer()
    client.socket.close()


def fetches(magic: int, max_bytes: int) -> Work:
    """Fetch a log of 16 KiB batches from the beginning, over and over."""

    def run(broker: Serving, topic: str, seconds: float) -> Slice:
        count = 256
        fill(broker, topic, magic, 16 * 1024, count)
        records = (16 * 1024 * 97 // 100) // 112
        frames = [
            fetch_request(topic, magic, number * records, max_bytes)
            for number in range(count - (max_bytes >> 14) - 1)
        ]

        def forever() -> Requests:
            while True:
                yield from frames

        return stream(forever(), WINDOW)(broker, topic, seconds)

    return run


def tail(consumers: int, magic: int = 2) -> Work:
    """Many consumers wait at the end of a log for each record of 100 bytes; figures per answered
    fetch.
    """

    def run(broker: Serving, topic: str, seconds: float) -> Slice:
        frame = produce_request(topic, magic, record_set(magic, 100))
        producer = Client(broker.ports[0])
        readers = [Client(broker.ports[0]) for _ in range(consumers)]
        offset = 0
        waits = []
        started = time.perf_counter()
        cpu = cpu_seconds(*broker.pids)
        while time.perf_counter() - started < seconds:
            fetch = fetch_request(topic, magic, offset, wait_ms=5000)
            for reader in readers:
                reader.socket.sendall(fetch)
            before = time.perf_counter()
            producer.socket.sendall(frame)
            producer.answer()
            for reader in readers:
                reader.answer()
            waits.append((time.perf_counter() - before) * 1e3)
            offset += 1
        cpu = cpu_seconds(*broker.pids) - cpu
        took = time.perf_counter() - started
        for each in (producer, *readers):
            each.socket.close()
        waits.sort()
        count = offset * consumers
        return Slice(
            cpu / count * 1e6, took / count, waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        )

    return run


def works() -> dict[str, Work]:
    """Name → work."""
    return {
        "produce 1 KiB, magic 2": produces(1024, 2, WINDOW),
        "produce 1 KiB, magic 2, idempotent": idempotent_produces(1024),
        "produce 1 KiB, magic 0": produces(1024, 0, WINDOW),
        "produce 16 KiB, magic 2": produces(16 * 1024, 2, WINDOW),
        "produce 16 KiB, magic 2, idempotent": idempotent_produces(16 * 1024),
        "produce 16 KiB, magic 0": produces(16 * 1024, 0, WINDOW),
        "round trip 1 KiB, magic 2": produces(1024, 2, 1),
        "round trip 1 KiB, magic 0": produces(1024, 0, 1),
        "fetch 1 MiB, magic 2": fetches(2, 1 << 20),
        "fetch 16 KiB, magic 2": fetches(2, 16 * 1024),
        "fetch 16 KiB, magic 0": fetches(0, 16 * 1024),
        f"tail 100 B to {CONSUMERS}": tail(CONSUMERS),
    }


def many(connections: int, size: int, magic: int, acks: int = 1) -> Work:
    """Connections shared among the partitions, one request of each in flight."""

    def run(broker: Serving, topic: str, seconds: float) -> Slice:
        records, ports = record_set(magic, size), broker.ports
        parts = [number % len(ports) for number in range(connections)]
        requests = [produce_request(topic, magic, records, part, acks) for part in parts]
        clients = [Client(ports[part]) for part in parts]
        sent = [time.perf_counter()] * connections
        waits = []
        cpu, started = cpu_seconds(*broker.pids), time.perf_counter()
        for each, request in zip(clients, requests, strict=True):
            each.socket.sendall(request)
        while (now := time.perf_counter()) - started < seconds:
            for number, each in enumerate(clients):
                each.answer()
                now, before = time.perf_counter(), sent[number]
                waits.append((now - before) * 1e3)
                sent[number] = now
                each.socket.sendall(requests[number])
        for each in clients:
            each.answer()
            each.socket.close()
        count, took = len(waits) + connections, time.perf_counter() - started
        cpu = cpu_seconds(*broker.pids) - cpu
        waits.sort()
        return Slice(
            cpu / count * 1e6, took / count, waits[len(waits) // 2], waits[len(waits) * 99 // 100]
        )

    return run


def measure(
    brokers: Sequence[Serving], works: Sequence[Work], name: str, rounds: int, seconds: float
) -> list[list[Slice]]:
    """Return the slices of each broker, each doing its own work."""
    found: list[list[Slice]] = [[] for _ in brokers]
    safe = "".join(each if each.isalnum() else "-" for each in name)
    for number in range(rounds + 1):
        order = list(range(len(brokers)))
        for at in order if number % 2 else reversed(order):
            topic = f"{safe}-{number}"
            brokers[at].create(topic)
            result = works[at](brokers[at], topic, seconds)
            brokers[at].remove(topic)
            if number:  # the first round warms up
                found[at].append(result)
    return found


def medians(slices: list[Slice]) -> dict[str, float]:
    columns = zip(*slices, strict=True)
    return dict(zip(Slice._fields, map(statistics.median, columns), strict=True))


def report(name: str, found: list[list[Slice]]) -> dict[str, object]:
    """Print one line for a kind of request, and return it as data."""
    line = f"{name:36s}"
    for slices in found:
        of = medians(slices)
        line += f" {of['cpu_us']:7.1f} µs {1 / of['wall_s']:8.0f}/s"
        line += f" p50 {of['p50_ms']:.3f} p99 {of['p99_ms']:.3f} ms |"
    result: dict[str, object] = {"name": name, "brokers": [medians(each) for each in found]}
    if len(found) == 2:
        ratios = {
            field: statistics.median(
                getattr(second, field) / getattr(first, field)
                for first, second in zip(*found, strict=True)
            )
            for field in Slice._fields
        }
        result["ratios"] = ratios
        line += " ratio " + " ".join(
            f"{label} {ratios[field]:.2f}"
            for label, field in (("cpu", "cpu_us"), ("p50", "p50_ms"), ("p99", "p99_ms"))
        )
    print(line, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkouts", nargs="*", type=Path, help="directories, each with a .venv")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a slice")
    parser.add_argument("--only", help="part of the name of the kinds to send")
    parser.add_argument("--json", type=Path, help="where to write the results")
    given = parser.parse_args()
    if len(given.checkouts) > 2:
        parser.error("at most two checkouts are compared")
    checkouts = [*given.checkouts]
    if len(checkouts) < 2:
        checkouts.append(HERE)
    results = []
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="zkbroker-bench-"))
        zookeeper = stack.enter_context(EmbeddedZooKeeper()).connect_string
        brokers = [start_cluster(stack, Path(place), zookeeper, each) for each in checkouts]
        print(f"brokers of {' and '.join(map(str, checkouts))}", flush=True)
        for name, work in works().items():
            if given.only is None or given.only in name:
                turns = [work] * len(brokers)
                found = measure(brokers, turns, name, given.rounds, given.seconds)
                results.append(report(name, found))
    if given.json is not None:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
