"""The workloads of `bench.raw_socket` against our broker and another one, turn by turn.

The other broker already runs on this machine, such as a genuine Kafka of any version; it creates
topics when asked for their metadata (`auto.create.topics.enable`, which is its default). Its
process id gives its CPU-seconds and memory.

    python -m bench.beside --port 9092 --pid 4711 [--magic 0] [--rounds 5] [--seconds 2]
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from bench.raw_socket import Measured, make_topic, remove_topic, resident_mb, workloads
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

CREATED_WITHIN_S = 30


def auto_create(port: int, topic: str) -> None:
    """Ask for a topic's metadata, as every broker understands, until it has a leader."""
    deadline = time.monotonic() + CREATED_WITHIN_S
    with BrokerConnection(get_runtime("threads"), "127.0.0.1", port) as connection:
        while True:
            (answer,) = connection.request(MetadataRequest(topics=[topic]), 0).topics
            if answer.error_code == 0 and all(p.error_code == 0 for p in answer.partitions):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} was not created: error {answer.error_code}")
            time.sleep(0.1)


def compare(
    ours: BrokerProcess, port: int, pid: int, magic: int, rounds: int, seconds: float
) -> None:
    own_port = ours.address[1]
    assert ours.pid is not None
    print(f"magic {magic}, {rounds} rounds of {seconds:g} s, both brokers in turn")
    for name, (work, _) in workloads(magic, seconds).items():
        found: list[tuple[Measured, Measured]] = []
        for number in range(rounds):
            topic = f"beside-{name.replace(' ', '-')}-{magic}-{number}-{os.getpid()}"
            make_topic(own_port, topic)
            auto_create(port, topic)
            # Who goes first changes every round: the second finds warmer memory.
            if number % 2:
                their_turn = work(port, pid, topic)
                found.append((work(own_port, ours.pid, topic), their_turn))
            else:
                our_turn = work(own_port, ours.pid, topic)
                found.append((our_turn, work(port, pid, topic)))
            remove_topic(own_port, topic)
        unit = "req/s" if name == "round trip" else "MB/s"
        for who, side in (("zkbroker", 0), ("the other", 1)):
            runs = [pair[side] for pair in found]
            line = (
                f"{name:15s} {who:9s} {statistics.median(m.rate for m in runs):9.1f} {unit:5s}"
                f" {statistics.median(m.cpu_per_gb for m in runs):7.2f} CPU-s/GB"
            )
            if name == "round trip":
                line += (
                    f"  p50 {statistics.median(m.p50_ms for m in runs):.3f} ms"
                    f"  p99 {statistics.median(m.p99_ms for m in runs):.3f} ms"
                )
            print(line)
        faster = statistics.median(mine.rate / theirs.rate for mine, theirs in found)
        leaner = statistics.median(theirs.cpu_per_gb / mine.cpu_per_gb for mine, theirs in found)
        print(f"{name:15s} ratio     {faster:9.2f} x rate, {leaner:.2f} x less CPU")
    mine_mb, their_mb = resident_mb(ours.pid), resident_mb(pid)
    print(f"{'resident':15s} zkbroker {mine_mb:.0f} MB, the other {their_mb:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True, help="of the other broker, 127.0.0.1")
    parser.add_argument("--pid", type=int, required=True, help="of the other broker")
    parser.add_argument("--magic", type=int, choices=(0, 1, 2), default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="zkbroker-bench-") as directory,
        EmbeddedZooKeeper() as zookeeper,
    ):
        settings = {"broker.id": "0", "zookeeper.connect": zookeeper.connect_string}
        ours = BrokerProcess(Path(directory), settings)
        ours.start()
        try:
            compare(ours, given.port, given.pid, given.magic, given.rounds, given.seconds)
        finally:
            ours.stop()


if __name__ == "__main__":
    main()
