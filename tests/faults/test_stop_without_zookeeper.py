"""Brokers that stop while ZooKeeper does not answer stop by themselves, and without loss."""

import threading

import pytest

from tests.support.clusters import TestCluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer

ENOUGH_S = 60
SESSION_MS = 6000
"""After two thirds of it a broker counts a silent ZooKeeper as away."""


@pytest.mark.parametrize("ending", ["frozen", "stopping"])
def test_brokers_stop_while_zookeeper_does_not_answer(ending):
    with TestCluster(
        3, replication=3, properties={"zookeeper.session.timeout.ms": SESSION_MS}
    ) as it:
        topic = it.create_topic(partitions=6)
        config = ProducerConfig.from_properties(
            {"metadata.broker.list": it.bootstrap_servers, "request.required.acks": "-1"}
        )
        with Producer(config) as producer:
            producer.send([KeyedMessage(topic, b"x", partition=n % 6) for n in range(60)])
        zookeeper = it.embedded_zookeeper
        if ending == "frozen":
            zookeeper.pause()
        else:
            threading.Thread(target=zookeeper.stop).start()
        try:
            for broker in it.brokers:
                broker.request_stop()
            assert [broker.stop(ENOUGH_S) for broker in it.brokers] == [True] * 3
        finally:
            if ending == "frozen":
                zookeeper.resume()
        for broker in it.brokers:
            assert "clean" in "".join(p.name for p in broker.data_directory.iterdir())
