"""A rolling restart of all brokers, while four client libraries produce and consume in groups.

No client fails, with retries: each broker hands over its leaderships and groups before it stops.
All acknowledged messages are stored and read.
"""

import time
from collections import Counter

import pytest

from tests.support.process import wait_until
from tests.support.readers import (
    AioKafkaReader,
    KafkaPythonReader,
    OurReader,
    RdKafkaReader,
)
from tests.support.replicated import PROPERTIES, START_TIMEOUT_S, Replicas, eventually
from tests.support.senders import (
    AIOKAFKA,
    IDEMPOTENT,
    KAFKA_PYTHON,
    RDKAFKA,
    AioKafkaSender,
    KafkaPythonSender,
    OurSender,
    RdKafkaSender,
)
from zkbroker.admin.coordinator_groups import describe
from zkbroker.client import Cluster, ZooKeeperSource
from zkbroker.errors import ZkbrokerError
from zkbroker.zookeeper import ZkSession

pytest.importorskip("confluent_kafka")
pytest.importorskip("aiokafka")

PARTITIONS = 3
_END_S = 180.0
_READ_S = 180.0


def end(tasks):
    """End the tasks that run; fails with the names of those that do not end."""
    for each in tasks:
        each.over.set()
    deadline = time.monotonic() + _END_S
    started = [each for each in tasks if each.ident is not None]
    for each in started:
        each.join(max(0.0, deadline - time.monotonic()))
    left = [type(each).__name__ for each in started if each.is_alive()]
    assert not left, f"{left} did not end within {_END_S:g} s"


def group_state(cluster, group):
    """Describe a group that makes no progress, for the failure message."""
    try:
        with Cluster(ZooKeeperSource(cluster.zookeeper)) as view:
            return describe(view, group)
    except ZkbrokerError as error:
        return error


def test_producers_and_groups_continue_through_a_rolling_restart(local_cluster):
    topics = dict.fromkeys((IDEMPOTENT, RDKAFKA, AIOKAFKA, KAFKA_PYTHON), PARTITIONS)
    # No session expires, even on a busy machine: each broker stops by itself.
    properties = {**PROPERTIES, "zookeeper.session.timeout.ms": "60000"}
    with (
        local_cluster(3, replication=3, properties=properties) as cluster,
        ZkSession(cluster.zookeeper, session_timeout_ms=60_000) as session,
    ):
        replicated = Replicas(cluster, session, topics)
        idempotent = {"enable.idempotence": "true"}
        senders = [
            OurSender(cluster, IDEMPOTENT, PARTITIONS, **idempotent),
            RdKafkaSender(cluster, RDKAFKA, PARTITIONS),
            AioKafkaSender(cluster, AIOKAFKA, PARTITIONS),
            KafkaPythonSender(cluster, KAFKA_PYTHON, PARTITIONS),
        ]
        readers = [
            OurReader(cluster, IDEMPOTENT),
            RdKafkaReader(cluster, RDKAFKA),
            AioKafkaReader(cluster, AIOKAFKA),
            KafkaPythonReader(cluster, KAFKA_PYTHON),
        ]
        try:
            for each in (*senders, *readers):
                each.start()
            for reader in readers:
                assert wait_until(lambda reader=reader: len(reader.values) > 200), (
                    reader.topic,
                    reader.failure,
                )
            for broker_id in replicated.ids:
                assert cluster.broker(broker_id).stop(START_TIMEOUT_S)
                cluster.broker(broker_id).start(START_TIMEOUT_S)
                eventually(replicated.in_sync, f"all in sync again after {broker_id}")
            end(senders)
            behind = {}
            for sender, reader in zip(senders, readers, strict=True):
                if not wait_until(
                    # Duplicates do not make up for missing messages.
                    lambda reader=reader, sender=sender: (
                        len(set(reader.values)) >= len(sender.sent) or reader.failure is not None
                    ),
                    timeout_s=_READ_S,
                ):
                    behind[reader.topic] = group_state(cluster, reader.topic)
        finally:
            end([*senders, *readers])
        for sender in senders:
            print(sender.check())
        for sender, reader in zip(senders, readers, strict=True):
            if reader.failure is not None:
                raise reader.failure
            read_once = set(reader.values)
            missing = Counter(
                partition for partition, value, _ in sender.sent if value not in read_once
            )
            assert not missing, (
                f"{reader.topic}: stored and not read within {_READ_S:g} s, by partition: "
                f"{missing}; its group then: {behind.get(reader.topic)}"
            )
            print(f"{reader.topic}: {len(reader.values) - len(sender.sent)} read twice")
