"""Producers of unit tests, against brokers whose answers the test decides."""

import pytest

from tests.support.fake_broker import FakeCluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import Producer

RUNTIMES = pytest.mark.parametrize("runtime", ["threads", "gevent"])
WAIT_S = 20


def make(fake: FakeCluster, runtime: str = "threads", *, plugins=None, **properties) -> Producer:
    given = {"metadata.broker.list": fake.addresses, "queue.time": "5", "retry.backoff.ms": "10"}
    given |= {key.replace("_", "."): str(value) for key, value in properties.items()}
    return Producer(ProducerConfig.from_properties(given), runtime=runtime, **(plugins or {}))


def asynchronous(fake: FakeCluster, runtime: str = "threads", **properties) -> Producer:
    return make(fake, runtime, producer_type="async", **properties)
