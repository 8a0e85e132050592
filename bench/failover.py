"""How long partitions have no leader, and clients no answer, when brokers are killed or stopped.

A topic of many partitions with three replicas on three brokers. Times of a kill are counted from
the moment in which ZooKeeper ended the broker's session (no part of the cluster is faster than
that), of a clean stop from the signal. A partition is led again when its new leader has registered
in ZooKeeper, which it does after it took over. Then all brokers are restarted in turn under a
producer with acks=all and a group: their longest pauses, from one message to the next.

    python -m bench.failover [--partitions 300] [--rounds 3] [--session-ms 3000]
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka

from zkbroker.cluster import ClusterProcesses
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry import paths
from zkbroker.registry.controller_election import current_controller
from zkbroker.registry.topics import create_topic
from zkbroker.zookeeper import ZkSession

TOPIC = "failover"
BROKERS = (1, 2, 3)
WITHIN_S = 120
LOOK_S = 0.01


class Watched:
    """The cluster, as ZooKeeper shows it."""

    def __init__(self, session: ZkSession, partitions: int) -> None:
        self.session = session
        self._keys = [(TOPIC, number) for number in range(partitions)]

    def leaders(self) -> list[int]:
        """The leader that registered itself, of each partition; -1 for none."""
        nodes = self.session.get_many([paths.partition_state(*key) for key in self._keys])
        return [-1 if node is None else json.loads(node[0])["leader"] for node in nodes]

    def in_sync(self) -> bool:
        nodes = self.session.get_many([paths.partition(*key) for key in self._keys])
        return all(node and len(json.loads(node[0])["isr"]) == len(BROKERS) for node in nodes)

    def led_without(self, broker: int) -> bool:
        return not {-1, broker} & set(self.leaders())


def when(condition: Callable[[], object]) -> float:
    """Wait for a condition; the time at which it held."""
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WITHIN_S} s")
        time.sleep(LOOK_S)
    return time.monotonic()


def fail(
    cluster: ClusterProcesses, watched: Watched, what: str, times: dict[str, list[float]]
) -> None:
    """Have one broker fail or stop, measure, and bring it back."""
    session = watched.session
    controller = current_controller(session)
    assert controller is not None
    other = controller % len(BROKERS) + 1
    victim = cluster.broker(controller if "controller" in what else other)
    if "stopped" in what:
        start = time.monotonic()
        victim.request_stop()
        led = when(lambda: watched.led_without(victim.id))
        victim.stop()
    else:
        victim.kill()
        start = when(lambda: session.exists(paths.broker(victim.id)) is None)
        if victim.id == controller:
            elected = when(lambda: current_controller(session) not in (None, victim.id))
            times[f"{what}: next controller elected"].append(elected - start)
        led = when(lambda: watched.led_without(victim.id))
    times[f"{what}: all led again"].append(led - start)
    victim.start()
    when(watched.in_sync)
    elect_preferred(session)
    when(lambda: len(set(watched.leaders())) == len(BROKERS))


def elect_preferred(session: ZkSession) -> None:
    when(lambda: session.exists(paths.PREFERRED_REPLICA_ELECTION) is None)
    keys = [
        {"topic": TOPIC, "partition": n}
        for n in range(len(session.children(f"{paths.topic(TOPIC)}/partitions")))
    ]
    session.create(
        paths.PREFERRED_REPLICA_ELECTION, json.dumps({"version": 1, "partitions": keys}).encode()
    )
    when(lambda: session.exists(paths.PREFERRED_REPLICA_ELECTION) is None)


class Pauses:
    """The longest time between two events."""

    def __init__(self) -> None:
        self.longest_s, self.count = 0.0, 0
        self._last_s = 0.0

    def tick(self) -> None:
        now = time.monotonic()
        if self.count:
            self.longest_s = max(self.longest_s, now - self._last_s)
        self.count += 1
        self._last_s = now


def produce(address: str, over: threading.Event, acknowledged: Pauses) -> None:
    config = ProducerConfig.from_properties(
        {
            "metadata.broker.list": address,
            "producer.type": "async",
            "enable.idempotence": "true",
            "request.required.acks": "-1",
            "queue.buffering.max.ms": "5",
            "delivery.timeout.ms": "120000",
        }
    )
    number = 0
    with Producer(config) as producer:
        while not over.is_set():
            message = KeyedMessage(TOPIC, b"%d" % number, partition=number % len(BROKERS))
            producer.send(message).add_done_callback(
                lambda future: acknowledged.tick() if future.exception() is None else None
            )
            number += 1
            time.sleep(0.001)


def consume(address: str, over: threading.Event, read: Pauses) -> None:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "failover",
            "auto.offset.reset": "latest",
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.subscribe([TOPIC])
    while not over.is_set():
        if any(message.error() is None for message in consumer.consume(1000, 0.01)):
            read.tick()
    consumer.close()


def roll(cluster: ClusterProcesses, watched: Watched, times: dict[str, list[float]]) -> None:
    """Restart every broker under load."""
    over, acknowledged, read = threading.Event(), Pauses(), Pauses()
    tasks = [
        threading.Thread(target=work, args=(cluster.bootstrap_servers, over, pauses))
        for work, pauses in ((produce, acknowledged), (consume, read))
    ]
    for task in tasks:
        task.start()
    try:
        when(lambda: read.count > 50)
        acknowledged.longest_s = read.longest_s = 0.0
        for each in BROKERS:
            cluster.broker(each).stop()
            cluster.broker(each).start()
            when(watched.in_sync)
        after = acknowledged.count
        when(lambda: acknowledged.count > after + 100)
    finally:
        over.set()
        for task in tasks:
            task.join()
    times["rolling restart: producer's longest pause"].append(acknowledged.longest_s)
    times["rolling restart: group's longest pause"].append(read.longest_s)
    elect_preferred(watched.session)


FAILURES = (
    "controller killed",
    "another broker killed",
    "controller stopped",
    "another broker stopped",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--session-ms", type=int, default=3000)
    parser.add_argument("--only", help="one failure, or roll")
    parser.add_argument("--directory", type=Path, help="keep the brokers' logs there")
    arguments = parser.parse_args()
    times: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        directory = arguments.directory or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        properties = {"zookeeper.session.timeout.ms": str(arguments.session_ms)}
        cluster = stack.enter_context(
            ClusterProcesses(directory, brokers=len(BROKERS), properties=properties)
        )
        session = stack.enter_context(ZkSession(cluster.zookeeper))
        assignment = {
            number: [BROKERS[(number + at) % len(BROKERS)] for at in range(len(BROKERS))]
            for number in range(arguments.partitions)
        }
        create_topic(session, TOPIC, assignment, {})
        watched = Watched(session, arguments.partitions)
        when(lambda: -1 not in watched.leaders() and watched.in_sync())
        for _ in range(arguments.rounds):
            for what in FAILURES:
                if arguments.only in (None, what):
                    fail(cluster, watched, what, times)
            if arguments.only in (None, "roll"):
                roll(cluster, watched, times)
    print(f"{arguments.partitions} partitions, medians of {arguments.rounds} (longest), seconds:")
    for name, found in times.items():
        print(f"  {name:45} {statistics.median(found):6.2f}  ({max(found):.2f})")


if __name__ == "__main__":
    main()
