"""A paused broker that keeps its connections: clients look up metadata at the others."""

import uuid
from contextlib import contextmanager

import pytest

from tests.support.process import eventually
from zkbroker.admin import coordinator_groups
from zkbroker.client import Cluster, StaticSource
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import GroupConsumer
from zkbroker.producer import KeyedMessage, Producer

BEYOND_S = 600
"""A timeout that no test reaches: a client that waits for the hanging broker would not end."""


@pytest.fixture(scope="module")
def cluster(local_cluster):
    settings = {
        "offsets.topic.num.partitions": "6",
        "replica.lag.time.max.ms": "1500",
        # The hanging broker stays registered, so that clients still try it.
        "zookeeper.session.timeout.ms": "60000",
    }
    with local_cluster(3, properties=settings) as running:
        yield running


HANGING, OTHER = 1, 2
TRIES = 4
"""Each client starts with another broker."""


@contextmanager
def hanging(cluster):
    cluster.broker(HANGING).pause()
    try:
        yield
    finally:
        cluster.broker(HANGING).resume()


def coordinated_by(cluster, broker):
    """Return a group whose coordinator is a broker."""
    with Cluster(StaticSource(cluster.bootstrap_servers)) as view:
        while True:
            group = f"hangs-{uuid.uuid4().hex[:8]}"
            if coordinator_groups.describe(view, group).coordinator == broker:
                return group


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_consumer_commits_while_a_broker_hangs(cluster, runtime):
    topic = cluster.create_topic(partitions=1, replication=3)
    key = (topic, 0)
    group = coordinated_by(cluster, OTHER)
    config = GroupConsumerConfig(
        bootstrap_servers=tuple(cluster.bootstrap_servers.split(",")),
        group_id=group,
        enable_auto_commit=False,
        request_timeout_ms=BEYOND_S * 1000,
    )
    with GroupConsumer(config, runtime=runtime) as before:
        before.assign([key])
        with hanging(cluster):
            # A client that knows the brokers, and clients that start with the list.
            before.commit({key: 1}, timeout_s=60)
            for offset in range(2, 2 + TRIES):
                with GroupConsumer(config, runtime=runtime) as consumer:
                    consumer.commit({key: offset}, timeout_s=60)
                    assert consumer.committed([key])[key].offset == offset


def test_idempotent_producer_starts_while_a_broker_hangs(cluster):
    topic = cluster.create_topic(partitions=3, replication=1)
    with Cluster(StaticSource(cluster.bootstrap_servers)) as view:

        def led():
            view.refresh([topic])
            return [p.partition for p in view.known_partitions(topic) or () if p.leader == OTHER]

        # The broker that is asked may not know the new topic yet.
        eventually(led)
        (partition,) = led()
    config = ProducerConfig(
        broker_list=tuple(cluster.bootstrap_servers.split(",")),
        idempotence=True,
        request_timeout_ms=BEYOND_S * 1000,
        delivery_timeout_ms=BEYOND_S * 2000,
    )
    with hanging(cluster):
        for _ in range(TRIES):
            with Producer(config) as producer:
                sent = producer.send(KeyedMessage(topic, b"m", partition=partition))
                assert sent.partition == partition


def test_describe_group_finds_the_coordinator_while_a_broker_hangs(cluster):
    group = coordinated_by(cluster, OTHER)
    source = StaticSource(cluster.bootstrap_servers)
    with hanging(cluster), Cluster(source, request_timeout_ms=BEYOND_S * 1000) as view:
        for _ in range(TRIES):
            assert coordinator_groups.describe(view, group).coordinator == OTHER
