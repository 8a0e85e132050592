"""Transactional producers are refused at once where the protocol level is too old."""

import time

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.support.clusters import module_cluster

# Beside genuine brokers of 0.8.2, which could not take markers.
cluster = module_cluster(
    properties={"inter.broker.protocol.version": "0.8.2", "log.message.format.version": "0.8.2"}
)


def test_transactional_producer_is_refused_at_once(cluster):
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"})
    patience_s = 300
    began = time.monotonic()
    with pytest.raises(KafkaException) as raised:
        producer.init_transactions(patience_s)
    error = raised.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert error.fatal()
    assert time.monotonic() - began < patience_s / 2  # refused, and not timed out
