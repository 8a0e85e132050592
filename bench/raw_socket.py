"""Raw-socket load: a broker against a bare gevent loop, in the same run.

Requests are built beforehand and sent by plain sockets, five in flight on one connection to one
partition; broker and bare loop take turns, so that both meet the same weather. Reported: medians,
CPU-seconds of the server per GB, resident memory, and the ratio broker / bare loop.

    python -m bench.raw_socket [--rounds 5] [--seconds 2] [--magic 2]
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import RequestHeader, encode_request
from zkbroker.protocol.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FetchRequest,
    ProduceRequest,
)
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import NewTopic, TopicConfig
from zkbroker.records import MessageSetBuilder
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

WINDOW = 5
TICKS = os.sysconf("SC_CLK_TCK")
TARGETS = {"produce 16 KiB": 0.35, "produce 900 kB": 0.7, "fetch 1 MiB": 0.85, "round trip": 0.35}


@dataclass
class Measured:
    """One run: megabytes or requests a second, CPU-seconds per GB, latencies in ms."""

    rate: float
    cpu_per_gb: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


def record_set(magic: int, size: int) -> bytes:
    """A set of 100-byte values that is about `size` bytes long."""
    count = 1
    while True:
        builder = MessageSetBuilder(magic)
        for number in range(count):
            builder.append(b"%08d" % number, b"x" * 100, timestamp_ms=1_500_000_000_000)
        data = builder.build()
        if len(data) >= size * 0.97:
            return data
        count = max(count + 1, int(count * size / len(data)))


def produce_request(topic: str, magic: int, size: int) -> bytes:
    version = {0: 0, 1: 2, 2: 7}[magic]
    request = ProduceRequest(
        topics=[ProduceRequestTopic(topic, [ProduceRequestPartition(0, record_set(magic, size))])]
    )
    return b"".join(encode_request(RequestHeader(0, version, 1, "bench"), request))  # type: ignore[arg-type]


def fetch_request(topic: str, magic: int) -> bytes:
    version = {0: 0, 1: 2, 2: 10}[magic]
    partition = FetchRequestPartition(0, -1, 0, -1, 1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchRequestTopic(topic, [partition])]
    )
    return b"".join(encode_request(RequestHeader(1, version, 1, "bench"), request))  # type: ignore[arg-type]


class Client:
    """Sends one request over and over, a window of them in flight."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray(4 << 20)

    def answer(self) -> int:
        view = memoryview(self.buffer)
        have = 0
        while have < 4:
            have += self._receive(view[have:4])
        size = int.from_bytes(self.buffer[:4], "big")
        have = 0
        while have < size:
            have += self._receive(view[have:size])
        return size

    def _receive(self, view: memoryview) -> int:
        count = self.socket.recv_into(view)
        if not count:
            raise ConnectionError("the server closed the connection")
        return count

    def stream(self, request: bytes, seconds: float, pid: int, *, of_answers: bool) -> Measured:
        cpu = cpu_seconds(pid)
        started = time.perf_counter()
        for _ in range(WINDOW):
            self.socket.sendall(request)
        moved = 0
        while time.perf_counter() - started < seconds:
            size = self.answer()
            moved += size if of_answers else len(request)
            self.socket.sendall(request)
        for _ in range(WINDOW):
            size = self.answer()
            moved += size if of_answers else len(request)
        took = time.perf_counter() - started
        return Measured(moved / took / 1e6, (cpu_seconds(pid) - cpu) / (moved / 1e9))

    def ping(self, request: bytes, seconds: float, pid: int) -> Measured:
        cpu = cpu_seconds(pid)
        latencies: list[float] = []
        started = time.perf_counter()
        now = started
        while now - started < seconds:
            self.socket.sendall(request)
            self.answer()
            then, now = now, time.perf_counter()
            latencies.append((now - then) * 1000)
        latencies.sort()
        return Measured(
            len(latencies) / (now - started),
            (cpu_seconds(pid) - cpu) / (len(latencies) * len(request) / 1e9),
            latencies[len(latencies) // 2],
            latencies[len(latencies) * 99 // 100],
        )


def make_topic(port: int, name: str) -> None:
    with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:
        settings = [TopicConfig("file.delete.delay.ms", "0")]
        connection.request(CreateTopicsRequest(topics=[NewTopic(name, 1, 1, [], settings)]))


def remove_topic(port: int, name: str) -> None:
    with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:
        connection.request(DeleteTopicsRequest(topics=[name]))


def fill(port: int, topic: str, magic: int) -> None:
    client = Client(port)
    request = produce_request(topic, magic, 900_000)
    for _ in range(3):
        client.socket.sendall(request)
        client.answer()


def workloads(
    magic: int, seconds: float
) -> dict[str, tuple[Callable[[int, int, str], Measured], Callable[[int, int], Measured]]]:
    """Name → (run against a broker: port, pid, topic; run against the bare loop: port, pid)."""

    def produce(
        size: int,
    ) -> tuple[Callable[[int, int, str], Measured], Callable[[int, int], Measured]]:
        def ours(port: int, pid: int, topic: str) -> Measured:
            request = produce_request(topic, magic, size)
            return Client(port).stream(request, seconds, pid, of_answers=False)

        def bare(port: int, pid: int) -> Measured:
            request = produce_request("bench", magic, size)
            body = request[:4] + b"\x00\x00" + request[6:]
            return Client(port).stream(body, seconds, pid, of_answers=False)

        return ours, bare

    def fetch(port: int, pid: int, topic: str) -> Measured:
        fill(port, topic, magic)
        return Client(port).stream(fetch_request(topic, magic), seconds, pid, of_answers=True)

    def bare_fetch(port: int, pid: int) -> Measured:
        request = fetch_request("bench", magic)
        return Client(port).stream(request, seconds, pid, of_answers=True)

    def round_trip(port: int, pid: int, topic: str) -> Measured:
        return Client(port).ping(produce_request(topic, magic, 1024), seconds, pid)

    def echo(port: int, pid: int) -> Measured:
        request = produce_request("bench", magic, 1024)
        return Client(port).ping(request[:4] + b"\xff" + request[5:], seconds, pid)

    return {
        "produce 16 KiB": produce(16 * 1024),
        "produce 900 kB": produce(900_000),
        "fetch 1 MiB": (fetch, bare_fetch),
        "round trip": (round_trip, echo),
    }


def run(magic: int, rounds: int, seconds: float, only: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="zkbroker-bench-") as directory:
        bare = subprocess.Popen(
            [sys.executable, "-m", "bench.bare_loop", f"{directory}/bare", str(magic)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert bare.stdout is not None
        bare_port = int(bare.stdout.readline())
        with EmbeddedZooKeeper() as zookeeper:
            broker = BrokerProcess(
                Path(directory),
                {
                    "broker.id": "0",
                    "zookeeper.connect": zookeeper.connect_string,
                },
            )
            broker.start()
            try:
                measure(magic, rounds, seconds, only, broker, bare, bare_port)
            finally:
                broker.stop()
                bare.kill()
                bare.wait()


def measure(
    magic: int,
    rounds: int,
    seconds: float,
    only: str | None,
    broker: BrokerProcess,
    bare: subprocess.Popen[str],
    bare_port: int,
) -> None:
    port = broker.address[1]
    assert broker.pid is not None
    print(f"magic {magic}, {rounds} rounds of {seconds:g} s, broker and bare loop in turn")
    for name, (ours, loop) in workloads(magic, seconds).items():
        if only is not None and only not in name:
            continue
        found: list[tuple[Measured, Measured]] = []
        for number in range(rounds):
            topic = f"bench-{name.replace(' ', '-')}-{magic}-{number}"
            make_topic(port, topic)
            # Who goes first changes every round: the second finds warmer memory.
            if number % 2:
                theirs_now = loop(bare_port, bare.pid)
                found.append((ours(port, broker.pid, topic), theirs_now))
            else:
                mine_now = ours(port, broker.pid, topic)
                found.append((mine_now, loop(bare_port, bare.pid)))
            remove_topic(port, topic)
        ratio = statistics.median(mine.rate / theirs.rate for mine, theirs in found)
        mine = [pair[0] for pair in found]
        theirs = [pair[1] for pair in found]
        unit = "req/s" if name == "round trip" else "MB/s"
        target = f" (target {TARGETS[name]})" if magic == 2 else ""
        print(
            f"{name:15s} broker {statistics.median(m.rate for m in mine):9.1f} {unit}"
            f" {statistics.median(m.cpu_per_gb for m in mine):6.2f} CPU-s/GB"
            f"   bare {statistics.median(m.rate for m in theirs):9.1f} {unit}"
            f" {statistics.median(m.cpu_per_gb for m in theirs):6.2f} CPU-s/GB"
            f"   ratio {ratio:.2f}{target}"
        )
        if name == "round trip":
            print(
                f"{'':15s} broker p50 {statistics.median(m.p50_ms for m in mine):.3f} ms"
                f" p99 {statistics.median(m.p99_ms for m in mine):.3f} ms"
                f"   bare p50 {statistics.median(m.p50_ms for m in theirs):.3f} ms"
                f" p99 {statistics.median(m.p99_ms for m in theirs):.3f} ms"
                f"   ratio of p50 {statistics.median(t.p50_ms / m.p50_ms for m, t in found):.2f}"
            )
    print(f"{'resident':15s} broker {resident_mb(broker.pid):.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--magic", type=int, choices=(0, 1, 2), action="append")
    parser.add_argument("--only", help="part of the name of the workloads to run")
    given = parser.parse_args()
    for magic in given.magic or (2, 0):
        run(magic, given.rounds, given.seconds, given.only)


if __name__ == "__main__":
    main()
