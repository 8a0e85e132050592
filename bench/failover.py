"""How long partitions have no leader when a broker is killed or stopped, against genuine 0.8.2.2.

A topic of many partitions with three replicas on three brokers. Times of a kill are counted from
the moment in which ZooKeeper ended the broker's session (no part of a cluster can react before), of
a clean stop from the signal; a partition is led again once its new leader answers for it. The
clusters take turns. Then, on zkbroker only, a topic of more partitions: how much longer they are
without a leader, and out of sync, when the controller is killed than when another broker is. A
broker's limit of open files bounds the replicas that it holds.

    python -m bench.failover [--partitions 300] [--rounds 3] [--only "killed"] [--results DIR]
                             [--many 1000] [--many-rounds 1] [--brokers 3]

`--rounds 0` leaves the comparison out, `--many 0` the topic of more partitions.
"""

import json
import tempfile
import threading
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

from bench.clusters import GENUINE, HERE, Cluster, need_genuine, start_cluster, when
from bench.figures import Comparison, Found, options, publish
from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.config.log import LogManagerConfig
from zkbroker.registry import paths
from zkbroker.registry.controller_election import current_controller
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

TOPIC = "failover"
REPLICAS = 3
SESSION_MS = 4000
PROPERTIES = {"zookeeper.session.timeout.ms": str(SESSION_MS)}
FAILURES = ("controller killed", "another broker killed", "another broker stopped")


def fail(cluster: Cluster, partitions: int, what: str) -> tuple[float, float]:
    """Kill or stop one broker, and bring it back.

    Returns:
        seconds until every partition was led again, and until all were in sync.
    """
    controller = current_controller(cluster.session)
    assert controller is not None
    number = controller if "controller" in what else controller % len(cluster.brokers) + 1
    victim, began = cluster.broker(number), monotonic()
    ending = threading.Thread(target=victim.stop if "stopped" in what else victim.kill)
    ending.start()
    if "killed" in what:
        began = when(lambda: not cluster.registered(number))
    led_s = cluster.wait_led(TOPIC, partitions, without=number) - began
    ending.join()
    victim.start()
    in_sync_s = cluster.wait_in_sync(TOPIC, partitions) - began
    elect_preferred(cluster, partitions)
    return led_s, in_sync_s


def elect_preferred(cluster: Cluster, partitions: int) -> None:
    """Give every broker its share again."""
    node, session = paths.PREFERRED_REPLICA_ELECTION, cluster.session
    keys = [{"topic": TOPIC, "partition": number} for number in range(partitions)]
    session.create(node, json.dumps({"version": 1, "partitions": keys}).encode())
    when(lambda: session.exists(node) is None)
    cluster.wait_led(TOPIC, partitions)


def compare(
    stack: ExitStack, directory: Path, rounds: int, partitions: int, only: str
) -> list[Comparison]:
    """Measure ours and genuine ones in turn."""
    need_genuine()
    zookeeper = stack.enter_context(EmbeddedZooKeeper()).connect_string
    sides = [
        start_cluster(stack, directory, zookeeper, each, REPLICAS, PROPERTIES)
        for each in (HERE, None)
    ]
    for side in sides:
        side.create(TOPIC, partitions)
        side.wait_in_sync(TOPIC, partitions)
    times: dict[str, list[list[float]]] = defaultdict(lambda: [[], []])
    for number in range(rounds):
        for what in FAILURES:
            if only in what:
                for at in (0, 1) if number % 2 else (1, 0):
                    times[what][at].append(fail(sides[at], partitions, what)[0])
    return [
        Comparison(f"{partitions} partitions led, {what}", "s", GENUINE, *found, False)
        for what, found in times.items()
    ]


def many(
    stack: ExitStack, directory: Path, rounds: int, partitions: int, brokers: int
) -> list[Comparison]:
    """Kill the controller of many partitions, then another broker."""
    zookeeper = stack.enter_context(EmbeddedZooKeeper()).connect_string
    cluster = start_cluster(stack, directory, zookeeper, HERE, brokers, PROPERTIES)
    cluster.create(TOPIC, partitions, REPLICAS)
    cluster.wait_in_sync(TOPIC, partitions)
    sides = [
        [fail(cluster, partitions, what) for _ in range(rounds)]
        for what in ("controller killed", "another broker killed")
    ]
    return [
        Comparison(
            f"{partitions} partitions, controller killed: {done}",
            "s",
            "another broker's kill",
            *([times[at] for times in side] for side in sides),
            more_is_better=False,
        )
        for at, done in enumerate(("led", "in sync"))
    ]


def main() -> None:
    parser = options(__doc__, rounds=3)
    parser.add_argument("--partitions", type=int, default=300)
    parser.add_argument("--only", default="", help="part of the name of the failures")
    parser.add_argument("--many", type=int, default=1000)
    parser.add_argument("--many-rounds", type=int, default=1)
    parser.add_argument("--brokers", type=int, default=REPLICAS)
    given = parser.parse_args()
    if given.brokers < REPLICAS:
        parser.error(f"--brokers {given.brokers}: {REPLICAS} replicas need as many brokers")
    limit = PartitionCapacity(LogManagerConfig().open_segments).limit
    most = limit * given.brokers // REPLICAS
    if given.many > most:
        parser.error(
            f"--many {given.many}: with this limit of open files a broker holds {limit} replicas,"
            f" {given.brokers} brokers {most} partitions; raise the limit (ulimit -n), or ask for"
            " more brokers or fewer partitions"
        )
    found: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="zkbroker-bench-") as name:
        if given.rounds:
            with ExitStack() as stack:
                found += compare(stack, Path(name), given.rounds, given.partitions, given.only)
        if given.many:
            with ExitStack() as stack:
                found += many(stack, Path(name), given.many_rounds, given.many, given.brokers)
    publish(Found("failover", found), given.results)


if __name__ == "__main__":
    main()
