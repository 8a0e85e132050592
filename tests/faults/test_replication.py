"""Three brokers and five, three replicas, two of which must have what is acknowledged: faults in
turn.

Leaders and controllers are killed, stopped for longer than their ZooKeeper session lives, stopped
cleanly, and started again; the network is cut between brokers and between a broker and ZooKeeper,
which loses a server of its three; while producers with acks=all send: ours, librdkafka's and, where
it is here, Java's. What was acknowledged is there, what an idempotent producer sent is there once
and in order, nothing that was retried failed, and in the end all replicas are the same.
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


def strike(
    world: ReplicatedCluster, fault: str, rng: random.Random, senders: list[Sender]
) -> Failover | None:
    """Do one fault and make it good again; returns how long a change of leaders took."""
    victim = world.victim(fault, rng)
    broker = world.cluster.broker(victim)
    undo: Callable[[], object] = partial(broker.start, START_TIMEOUT_S)
    found: Failover | None = None
    if fault == "cut brokers":
        world.network.cut_brokers(
            victim, rng.choice([each for each in world.ids if each != victim])
        )
        undo = world.network.heal
    elif fault == "lose a ZooKeeper":
        lost = world.quorum.leader or world.quorum.servers[0]
        lost.kill()
        undo = lost.start
    elif fault == "roll":
        for each in world.ids:
            assert world.cluster.broker(each).stop(START_TIMEOUT_S)
            world.cluster.broker(each).start(START_TIMEOUT_S)
            eventually(world.in_sync, f"{fault}: all in sync again after {each}")
        undo = time.monotonic
    elif fault == "stop leader":
        broker.request_stop()
        found = time_failover(world, victim, leaves=True)
        assert broker.stop(START_TIMEOUT_S)
    else:
        if fault.startswith("kill"):
            broker.kill()
        elif fault.startswith("pause"):
            broker.pause()
            undo = broker.resume
        else:
            world.network.cut_zookeeper(victim)
            undo = world.network.heal
        found = time_failover(world, victim, leaves=False)
    for sender in senders:
        assert sender.acknowledges(), f"{fault}: {sender.topic} goes on"
    undo()
    eventually(world.in_sync, f"{fault}: all in sync again after {victim}")
    for sender in senders:
        assert sender.acknowledges(), f"{fault}: {sender.topic} goes on with all"
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
def test_nothing_acknowledged_is_lost_and_nothing_idempotent_is_doubled(
    tmp_path, rounds, seed, brokers
):
    rng = random.Random(seed + soak.SEED)
    with replicated_cluster(tmp_path, TOPICS, brokers) as world:
        cluster = world.cluster
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
                found = strike(world, fault, rng, senders)
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
        eventually(world.in_sync, "all in sync at the end")
        for sender in senders:
            print(sender.check())
        eventually(lambda: not world.different_logs(), "the same bytes in all logs")
