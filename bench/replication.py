"""Three replicas beside one on the same three brokers, beside genuine ones, and a large controller.

`all`: N messages of 1000 bytes at acks=all by librdkafka, from the first send to the last
acknowledgement, and the CPU-seconds that the brokers took for a GB. `single`: single sends, p50 and
p99. Genuine Kafka 0.8.2.2 takes part where `make java-clients` put it. Then, on brokers of its own,
a topic of many partitions with three replicas: how long until every partition is led again after
its controller, and after another broker, was killed (from the kill; the session's time is in it),
and the controller's memory. A broker's limit of open files bounds the replicas that it holds: more
brokers hold more partitions.

    python -m bench.replication [--messages 100000] [--rounds 3] [--singles 300]
                                [--partitions 1000] [--brokers 3]

`--rounds 0` leaves the comparison out, `--partitions 0` the large controller.
"""

import argparse
import statistics
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import confluent_kafka

from bench.broker import JAVA
from bench.producer import latencies
from bench.raw_socket import cpu_seconds, resident_mb
from tests.support import java_clients
from tests.support.genuine_broker import GenuineBroker
from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.cluster import ClusterProcesses
from zkbroker.config.log import LogManagerConfig
from zkbroker.registry.controller_election import current_controller
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.registry.topics import create_topic
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

VALUE = b"x" * 1000
SESSION_MS = 3000
PROPERTIES = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
LED_WITHIN_S = 300
REPLICAS = 3


@dataclass
class Contender:
    """Args: address of the brokers, what librdkafka needs, their processes, and the topic."""

    address: str
    options: dict[str, object]
    pids: list[int]
    topic: str
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    singles: list[tuple[float, float]] = field(default_factory=list)

    def producer(self, linger_ms: int) -> confluent_kafka.Producer:
        return confluent_kafka.Producer(
            {
                "bootstrap.servers": self.address,
                "acks": "all",
                "linger.ms": linger_ms,
                **self.options,
            }
        )

    def send_all(self, count: int) -> None:
        producer = self.producer(5)
        failed = 0

        def delivered(error: object, message: object) -> None:
            nonlocal failed
            failed += error is not None

        before, started = cpu_of(self.pids), time.perf_counter()
        for number in range(count):
            while True:
                try:
                    producer.produce(
                        self.topic, VALUE, partition=number // 500 % 3, on_delivery=delivered
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(300) == 0
        assert not failed
        self.rates.append(count * len(VALUE) / 1e6 / (time.perf_counter() - started))
        self.cpu.append((cpu_of(self.pids) - before) / (count * len(VALUE) / 1e9))

    def send_singly(self, count: int) -> None:
        producer = self.producer(0)

        def send() -> None:
            producer.produce(self.topic, VALUE, partition=0)
            assert producer.flush(30) == 0

        self.singles.append(latencies(send, count))


def cpu_of(pids: list[int]) -> float:
    return sum(cpu_seconds(pid) for pid in pids)


def assignment(ids: list[int], factor: int, partitions: int = 3) -> dict[int, list[int]]:
    return {
        number: [ids[(number + at) % len(ids)] for at in range(factor)]
        for number in range(partitions)
    }


def wait_led(states: PartitionStates, topic: str, partitions: int, gone: int, isr: int = 0) -> None:
    """Wait until every partition is led by another broker than one that is gone."""
    keys = [(topic, number) for number in range(partitions)]
    deadline = time.monotonic() + LED_WITHIN_S
    while (looked := time.monotonic()) < deadline:
        found = states.read(keys)
        if len(found) == partitions and all(
            each.leader not in (-1, gone) and len(each.isr) >= isr for each in found.values()
        ):
            return
        # To look takes ZooKeeper's time, of which the brokers need theirs.
        time.sleep(max(0.02, 2 * (time.monotonic() - looked)))
    raise TimeoutError(f"{topic} is not led after {LED_WITHIN_S} s")


def genuine(directory: Path, stack: ExitStack) -> Contender:
    zookeeper = stack.enter_context(EmbeddedZooKeeper())
    brokers = []
    for number in range(3):
        place = directory / f"genuine-{number}"
        place.mkdir()
        broker = GenuineBroker(
            place, zookeeper.connect_string, place / "data", {"broker.id": str(number)}, JAVA
        )
        stack.callback(broker.kill)
        broker.start()
        brokers.append(broker)
    with ZkSession(zookeeper.connect_string) as session:
        create_topic(session, "r3", assignment([0, 1, 2], 3), {"min.insync.replicas": "2"})
        wait_led(PartitionStates(session, StateForm.PERSISTENT), "r3", 3, -1, isr=3)
    pids = [each._process.pid for each in brokers if each._process is not None]
    options = {"api.version.request": False, "broker.version.fallback": "0.8.2.2"}
    address = ",".join(f"127.0.0.1:{each.port}" for each in brokers)
    return Contender(address, options, pids, "r3")


def compare(directory: Path, messages: int, rounds: int, singles: int) -> None:
    """One replica, three, and three of genuine brokers, in turn."""
    with ExitStack() as stack:
        cluster = stack.enter_context(
            ClusterProcesses(directory / "ours", brokers=REPLICAS, properties=PROPERTIES)
        )
        session = stack.enter_context(ZkSession(cluster.zookeeper))
        create_topic(session, "r1", assignment([1, 2, 3], 1), {"min.insync.replicas": "1"})
        create_topic(session, "r3", assignment([1, 2, 3], 3), {})
        states = PartitionStates(session, StateForm.EPHEMERAL)
        wait_led(states, "r1", 3, -1, isr=1)
        wait_led(states, "r3", 3, -1, isr=3)
        pids = [each.pid for each in cluster.brokers if each.pid is not None]
        contenders = {
            f"zkbroker, {factor[1]} replica(s)": Contender(
                cluster.bootstrap_servers, {}, pids, factor
            )
            for factor in ("r1", "r3")
        }
        if not java_clients.old_missing():
            contenders["Kafka 0.8.2.2, 3 replicas"] = genuine(directory, stack)
        for _ in range(rounds):
            for each in contenders.values():
                each.send_all(messages)
            for each in contenders.values():
                each.send_singly(singles)
        print(f"acks=all, {messages} x {len(VALUE)} B, medians of {rounds}:")
        for name, each in contenders.items():
            p50 = statistics.median(p for p, _ in each.singles)
            p99 = statistics.median(p for _, p in each.singles)
            print(
                f"  {name:26} {statistics.median(each.rates):7.1f} MB/s  "
                f"{statistics.median(each.cpu):6.1f} CPU s/GB  p50 {p50:.2f} ms  p99 {p99:.2f} ms",
                flush=True,
            )


def wait_made(directory: Path, assigned: dict[int, list[int]]) -> None:
    """Wait until every broker has made its logs: what is decided is carried out a little later."""
    deadline = time.monotonic() + LED_WITHIN_S
    for broker, count in Counter(chain.from_iterable(assigned.values())).items():
        while sum(1 for _ in directory.glob(f"broker-{broker}/many-*")) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"broker {broker} has not made its logs in {LED_WITHIN_S} s")
            time.sleep(0.2)


def failovers(directory: Path, partitions: int, brokers: int) -> None:
    """The controller of many partitions is killed, then another broker."""
    with (
        ClusterProcesses(directory / "many", brokers=brokers, properties=PROPERTIES) as cluster,
        ZkSession(cluster.zookeeper) as session,
    ):
        states = PartitionStates(session, StateForm.EPHEMERAL)
        assigned = assignment([each.id for each in cluster.brokers], REPLICAS, partitions)
        started = time.monotonic()
        create_topic(session, "many", assigned, {})
        wait_led(states, "many", partitions, -1, isr=REPLICAS)
        wait_made(directory / "many", assigned)
        print(
            f"{partitions} partitions of {REPLICAS} replicas on {brokers} brokers: "
            f"made in {time.monotonic() - started:.1f} s",
            flush=True,
        )
        for what in ("its controller", "another broker"):
            controller = current_controller(session)
            assert controller is not None
            victim = cluster.broker(controller)
            if what == "its controller":
                assert victim.pid is not None
                print(f"  controller's memory {resident_mb(victim.pid):.0f} MB", flush=True)
            else:
                victim = cluster.broker(controller % brokers + 1)
            killed = time.monotonic()
            victim.kill()
            wait_led(states, "many", partitions, victim.id)
            took = time.monotonic() - killed
            print(
                f"  all led again after {what} was killed: {took:.2f} s (session {SESSION_MS} ms)",
                flush=True,
            )
            victim.start(LED_WITHIN_S)
            wait_led(states, "many", partitions, -1, isr=REPLICAS)
            print(f"  all in sync again after {time.monotonic() - killed:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singles", type=int, default=300)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--brokers", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.brokers < REPLICAS:
        parser.error(f"--brokers {arguments.brokers}: {REPLICAS} replicas need as many brokers")
    limit = PartitionCapacity(LogManagerConfig().open_segments).limit
    most = limit * arguments.brokers // REPLICAS
    if arguments.partitions > most:
        parser.error(
            f"--partitions {arguments.partitions}: with this limit of open files a broker holds "
            f"{limit} replicas, {arguments.brokers} brokers {most} partitions; raise the limit "
            "(ulimit -n), or ask for more brokers or fewer partitions"
        )
    with tempfile.TemporaryDirectory() as place:
        if arguments.rounds:
            compare(Path(place), arguments.messages, arguments.rounds, arguments.singles)
        if arguments.partitions:
            failovers(Path(place), arguments.partitions, arguments.brokers)


if __name__ == "__main__":
    main()
