"""Brokers stop cleanly while ZooKeeper does not answer."""

import threading

import pytest

from tests.support.clusters import TestCluster
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer

ENOUGH_S = 60
SESSION_MS = 6000
"""After two thirds of it a broker treats a silent ZooKeeper as away."""


@pytest.mark.parametrize("ending", ["frozen", "stopping"])
def test_brokers_stop_while_zookeeper_does_not_answer(ending):
    properties = {"zookeeper.session.timeout.ms": SESSION_MS}
    with TestCluster(3, replication=3, properties=properties) as cluster:
        topic = cluster.create_topic(partitions=6)
        config = ProducerConfig.from_properties(
            {"metadata.broker.list": cluster.bootstrap_servers, "request.required.acks": "-1"}
        )
        with Producer(config) as producer:
            producer.send([KeyedMessage(topic, b"x", partition=n % 6) for n in range(60)])
        zookeeper = cluster.embedded_zookeeper
        if ending == "frozen":
            zookeeper.pause()
        else:
            threading.Thread(target=zookeeper.stop).start()
        try:
            for broker in cluster.brokers:
                broker.request_stop()
            assert [broker.stop(ENOUGH_S) for broker in cluster.brokers] == [True] * 3
        finally:
            if ending == "frozen":
                zookeeper.resume()
        for broker in cluster.brokers:
            assert "clean" in "".join(p.name for p in broker.data_directory.iterdir())
