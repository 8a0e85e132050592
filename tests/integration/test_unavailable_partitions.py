"""Errors and warnings of clients where a partition cannot be written or read, on real brokers."""

import logging
import subprocess
import sys

import pytest

from tests.support.clusters import module_cluster
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import LeaderNotAvailable
from zkbroker.producer import KeyedMessage, KeyRequired, Producer, SendFailed
from zkbroker.testing import LocalCluster

cluster = module_cluster(2, properties={"replica.lag.time.max.ms": "1500"})


def producer(cluster: LocalCluster, **settings: str) -> Producer:
    properties = {"metadata.broker.list": cluster.bootstrap_servers, **settings}
    return Producer(ProducerConfig.from_properties(properties))


def test_compacted_topic_requires_key(cluster: LocalCluster) -> None:
    topic = cluster.create_topic(config={"cleanup.policy": "compact"})
    with producer(cluster) as sending:
        with pytest.raises(SendFailed) as caught:
            sending.send([KeyedMessage(topic, b"a", key=b"k"), KeyedMessage(topic, b"b")])
        assert [message.message for message, _ in caught.value.sent] == [b"a"]
        ((_, error),) = caught.value.failed
        assert isinstance(error, KeyRequired)
        assert sending.metrics()["retries"] == 0


def test_not_enough_replicas_is_explained(cluster: LocalCluster) -> None:
    topic = cluster.create_topic(replication=1, config={"min.insync.replicas": "2"})
    with (
        # The settings are looked up between two attempts.
        producer(cluster, acks="all", **{"retry.backoff.ms": "500"}) as sending,
        pytest.raises(SendFailed) as caught,
    ):
        sending.send(KeyedMessage(topic, b"x"))
    text = str(caught.value.failed[0][1])
    assert "1 of 1 replicas in sync, and min.insync.replicas=2: give the topic more" in text
    assert "an answer was lost" not in text


def test_leaderless_partition_is_explained(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    topic = cluster.create_topic(partitions=2, replication=1)
    with Cluster(StaticSource(cluster.bootstrap_servers)) as view:
        away = next(each.partition for each in view.partitions(topic) if each.leader == 2)
        cluster.broker(2).kill()
        try:
            with (
                producer(cluster, **{"request.timeout.ms": "10000"}) as sending,
                pytest.raises(SendFailed, match=r"not registered: 2\. Start"),
            ):
                sending.send(KeyedMessage(topic, b"x", partition=away))
            with pytest.raises(LeaderNotAvailable, match="its replicas are on broker 2"):
                resolve_offsets(view, {(topic, away): -1}, timeout_s=3)
            warned = [text for text in caplog.messages if text.startswith(f"{topic}-{away} has no")]
            assert 1 <= len(warned) <= 2, "once for each of the two clients at most"
            where = ["-b", view_of(cluster), "-t", topic, "-p", str(away)]
            sent = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "zkbroker.cli",
                    "produce",
                    *where,
                    "-X",
                    "close.timeout.ms=6000",
                ],
                input=b"line",
                capture_output=True,
                check=False,
                timeout=300,
            )
        finally:
            cluster.broker(2).start()
    assert sent.returncode == 1
    text = sent.stderr.decode()
    assert text.count("not registered: 2") == 2, text
    assert "does not answer" not in text


def view_of(cluster: LocalCluster) -> str:
    host, port = cluster.broker(1).address
    return f"{host}:{port}"
