"""Clients of others above their quota: they keep to it, notice throttle times, and lose nothing."""

import time
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.support import java_clients
from tests.support.clusters import MakeCluster
from zkbroker.registry.user_configs import ConfigEntity, change_entity_config
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

QUOTA = 500_000
MESSAGES, SIZE = 150, 10_000
"""Three times the quota of a second."""
LEAST_S = (MESSAGES * SIZE - QUOTA) / QUOTA * 0.8
UNTHROTTLED_S = MESSAGES * SIZE / QUOTA
"""A client that takes longer, on a busy machine, may have kept below its quota by itself."""


@pytest.fixture(scope="module")
def cluster(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
    with local_cluster(1) as running:
        with ZkSession(running.zookeeper) as session:
            for client in ("confluent", "python", *java_clients.versions()):
                quotas = {"producer_byte_rate": str(QUOTA), "consumer_byte_rate": str(QUOTA)}
                change_entity_config(session, ConfigEntity(client=client), quotas)
        yield running
        for broker in running.brokers:
            assert "Traceback" not in broker.log_path.read_text()


def test_librdkafka_reports_throttle_times(cluster: LocalCluster) -> None:
    cluster.create_topic("of-confluent")
    throttled: list[float] = []
    common = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "client.id": "confluent",
        "throttle_cb": lambda event: throttled.append(event.throttle_time),
    }
    producer = confluent_kafka.Producer({**common, "batch.size": 50_000, "linger.ms": 5})
    started = time.monotonic()
    for number in range(MESSAGES):
        producer.produce("of-confluent", b"%d" % number + bytes(SIZE))
    assert producer.flush(60) == 0
    took_s = time.monotonic() - started
    assert took_s > LEAST_S
    assert throttled or took_s > UNTHROTTLED_S
    throttled.clear()
    consumer = confluent_kafka.Consumer(
        {
            **common,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "fetch.message.max.bytes": SIZE,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("of-confluent", 0, 0)])
    started, read = time.monotonic(), 0
    while read < MESSAGES:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        assert message.value().startswith(b"%d" % read)
        read += 1
    took_s = time.monotonic() - started
    assert took_s > LEAST_S
    assert throttled or took_s > UNTHROTTLED_S
    consumer.close()


def test_kafka_python_is_throttled_to_its_quota(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("of-python")
    common = {"bootstrap_servers": cluster.bootstrap_servers, "client_id": "python"}
    producer = KafkaProducer(**common, batch_size=50_000, acks=1)
    started = time.monotonic()
    sent = [producer.send("of-python", b"%d" % each + bytes(SIZE)) for each in range(MESSAGES)]
    assert [each.get(60).offset for each in sent] == list(range(MESSAGES))
    took_s = time.monotonic() - started
    assert took_s > LEAST_S
    assert "ProduceResponse throttled by broker" in caplog.text or took_s > UNTHROTTLED_S
    producer.close()
    consumer = KafkaConsumer(**common, max_partition_fetch_bytes=100_000)
    partition = TopicPartition("of-python", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    started, read = time.monotonic(), 0
    while read < MESSAGES:
        assert time.monotonic() - started < 60
        for record in consumer.poll(1000).get(partition, []):
            assert record.value.startswith(b"%d" % read)
            read += 1
    assert time.monotonic() - started > LEAST_S
    consumer.close()


@pytest.mark.parametrize("version", java_clients.version_parameters())
def test_java_shows_throttle_times_in_its_metrics(cluster: LocalCluster, version: str) -> None:
    topic = f"of-java-{version}"
    cluster.create_topic(topic)
    given = (cluster.bootstrap_servers, version, topic, str(MESSAGES), str(SIZE))
    output = java_clients.run(java_clients.command("ThrottledClient", version, *given))
    found = {line.split()[0]: line.split()[1:] for line in output.splitlines()}
    assert found.keys() == {"produce", "fetch"}
    for millis, throttle_ms in found.values():
        assert int(millis) > LEAST_S * 1000
        assert float(throttle_ms) > 0


def test_incremental_alter_configs_is_refused(cluster: LocalCluster) -> None:
    cluster.create_topic("altered")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    entry = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("topic", "altered", incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource]).values()
    with pytest.raises(confluent_kafka.KafkaException, match=r"not supported by broker"):
        future.result(30)
    (future,) = admin.alter_configs(
        [ConfigResource("topic", "altered", set_config={"retention.ms": "9"})]
    ).values()
    assert future.result(30) is None
