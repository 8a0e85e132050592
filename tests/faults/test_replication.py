"""Faults in turn on three and five brokers with three replicas, two of which acks=all needs.

Leaders and controllers are killed, paused for longer than their ZooKeeper session, stopped cleanly,
and started again; the network is cut between brokers and between a broker and ZooKeeper; one of
three ZooKeeper servers is lost. Meanwhile zkbroker's producer, librdkafka's and, if installed,
Java's send with acks=all. No acknowledged message is lost, the messages of an idempotent producer
are stored once and in order, no retried message fails, and in the end all replicas are equal.
"""

import random
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import pytest

from tests.support import java_clients, soak
from tests.support.replicated import (
    START_TIMEOUT_S,
    Failover,
    ReplicatedCluster,
    eventually,
    replicated_cluster,
    time_failover,
)
from tests.support.senders import (
    IDEMPOTENT,
    JAVA,
    PLAIN,
    RDKAFKA,
    JavaStream,
    OurSender,
    RdKafkaSender,
    Sender,
)

pytest.importorskip("confluent_kafka")

PARTITIONS = 3
TOPICS = dict.fromkeys((IDEMPOTENT, PLAIN, RDKAFKA, JAVA), PARTITIONS)
FAULTS = (
    "kill leader",
    "cut brokers",
    "lose a ZooKeeper",
    "cut leader from ZooKeeper",
    "stop leader",
    "kill controller",
    "pause leader",
    "cut controller from ZooKeeper",
    "pause controller",
    "roll",
)


def apply_fault(
    replicated: ReplicatedCluster, fault: str, rng: random.Random, senders: list[Sender]
) -> Failover | None:
    """Apply and undo one fault; return the duration of the change of leaders, if there was one."""
    victim = replicated.victim(fault, rng)
    broker = replicated.cluster.broker(victim)
    undo: Callable[[], object] = partial(broker.start, START_TIMEOUT_S)
    found: Failover | None = None
    if fault == "cut brokers":
        replicated.network.cut_brokers(
            victim, rng.choice([each for each in replicated.ids if each != victim])
        )
        undo = replicated.network.heal
    elif fault == "lose a ZooKeeper":
        lost = replicated.quorum.leader or replicated.quorum.servers[0]
        lost.kill()
        undo = lost.start
    elif fault == "roll":
        for each in replicated.ids:
            assert replicated.cluster.broker(each).stop(START_TIMEOUT_S)
            replicated.cluster.broker(each).start(START_TIMEOUT_S)
            eventually(replicated.in_sync, f"{fault}: all in sync again after {each}")
        undo = time.monotonic
    elif fault == "stop leader":
        broker.request_stop()
        found = time_failover(replicated, victim, controlled=True)
        assert broker.stop(START_TIMEOUT_S)
    else:
        if fault.startswith("kill"):
            broker.kill()
        elif fault.startswith("pause"):
            broker.pause()
            undo = broker.resume
        else:
            replicated.network.cut_zookeeper(victim)
            undo = replicated.network.heal
        found = time_failover(replicated, victim, controlled=False)
    for sender in senders:
        assert sender.acknowledges(), f"{fault}: messages of {sender.topic} during the fault"
    undo()
    eventually(replicated.in_sync, f"{fault}: all in sync again after {victim}")
    for sender in senders:
        assert sender.acknowledges(), f"{fault}: messages of {sender.topic} after the fault"
    return found


@pytest.mark.parametrize(
    ("rounds", "seed", "brokers"),
    [
        (3, 1, 3),
        pytest.param(20, 6, 3, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
        pytest.param(40, 3, 3, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
        pytest.param(200, 2, 3, marks=[pytest.mark.soak, pytest.mark.timeout(10_800)]),
        pytest.param(10, 7, 5, marks=[pytest.mark.soak, pytest.mark.timeout(1800)]),
        pytest.param(40, 5, 5, marks=[pytest.mark.soak, pytest.mark.timeout(3600)]),
        pytest.param(200, 4, 5, marks=[pytest.mark.soak, pytest.mark.timeout(14_400)]),
    ],
)
def test_acknowledged_messages_are_kept_and_idempotent_ones_not_duplicated(
    tmp_path, rounds, seed, brokers
):
    rng = random.Random(seed + soak.SEED)
    with replicated_cluster(tmp_path, TOPICS, brokers) as replicated:
        cluster = replicated.cluster
        senders: list[Sender] = [
            OurSender(cluster, IDEMPOTENT, PARTITIONS, **{"enable.idempotence": "true"}),
            OurSender(cluster, PLAIN, PARTITIONS, **{"message.send.max.retries": "1000"}),
            RdKafkaSender(cluster, RDKAFKA, PARTITIONS),
        ]
        java = None
        if java_clients.versions() and shutil.which("java"):
            java = JavaStream(cluster, PARTITIONS)
        times = defaultdict(list)
        for each in senders:
            each.start()
        try:
            for number in range(soak.part_of(rounds)):
                fault = FAULTS[number % len(FAULTS)]
                found = apply_fault(replicated, fault, rng, senders)
                print(f"{number} {fault} {found or ''}", flush=True)
                if found is not None:
                    times[fault].append(found.led_s)
        except BaseException:
            if java is not None:
                java.kill()
            raise
        finally:
            for each in senders:
                each.over.set()
            for each in senders:
                each.join()
        for fault, led_s in times.items():
            median = statistics.median(led_s)
            print(f"{fault}: led again after {median:.2f} s, the longest {max(led_s):.2f} s")
        if java is not None:
            print(f"java: {java.finish()} sent and read")
        eventually(replicated.in_sync, "all in sync at the end")
        for sender in senders:
            print(sender.check())
        eventually(lambda: not replicated.different_logs(), "the same bytes in all logs")
