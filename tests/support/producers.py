"""Producers and clusters of unit tests, which connect to a `FakeCluster`."""

import threading
from contextlib import contextmanager

import pytest

from tests.support.fake_broker import FakeCluster
from zkbroker.client import Cluster, StaticSource
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import Producer
from zkbroker.producer.queued_messages import QueuedMessages
from zkbroker.protocol import ApiKey
from zkbroker.runtime import get_runtime

RUNTIMES = pytest.mark.parametrize("runtime", ["threads", "gevent"])
WAIT_S = 60


def make(fake: FakeCluster, runtime: str = "threads", *, plugins=None, **properties) -> Producer:
    given = {"metadata.broker.list": fake.addresses, "queue.time": "5", "retry.backoff.ms": "10"}
    given |= {key.replace("_", "."): str(value) for key, value in properties.items()}
    return Producer(ProducerConfig.from_properties(given), runtime=runtime, **(plugins or {}))


def asynchronous(fake: FakeCluster, runtime: str = "threads", **properties) -> Producer:
    return make(fake, runtime, producer_type="async", **properties)


def static_cluster(fake: FakeCluster, runtime: str = "threads", **options: int) -> Cluster:
    return Cluster(StaticSource(fake.addresses), runtime=runtime, **options)


def hold_produce(fake: FakeCluster) -> threading.Event:
    """Have brokers answer no produce request until the returned event is set."""
    gate = threading.Event()
    for broker_id in fake.brokers:
        fake.faults[ApiKey.PRODUCE, broker_id] = lambda request: gate.wait(WAIT_S) and None
    return gate


def make_run(count: int, *, size: int = 10, topic: str = "t") -> QueuedMessages:
    """Return messages as `send` queues them, numbered from 0."""
    queued = QueuedMessages(topic, 0.0, get_runtime("threads"))
    for i in range(count):
        queued.records.append((None, b"%d" % i, i, ()))
        queued.sizes.append(size)
    return queued


@contextmanager
def held_loop(producer, runtime):
    """Hold the producer's loop, which then takes all messages of the block at once."""
    entered, gate = (get_runtime(runtime).event() for _ in range(2))
    producer._sender.post(lambda: (entered.set(), gate.wait(WAIT_S)))
    assert entered.wait(WAIT_S)
    yield
    gate.set()
