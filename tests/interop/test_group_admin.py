"""Groups, as genuine administration clients describe and change them."""

import uuid

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from tests.interop.kafka_python import kafka
from tests.support.clusters import module_cluster
from tests.support.process import wait_until

cluster = module_cluster(2, properties={"offsets.topic.num.partitions": "4"})


@pytest.fixture
def topic(cluster):
    return cluster.create_topic(partitions=2)


@pytest.fixture
def member(cluster, topic):
    """A member of a group of its own that has committed."""
    consumer = kafka.KafkaConsumer(
        topic,
        group_id=f"admin-{uuid.uuid4().hex[:8]}",
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        auto_offset_reset="earliest",
    )

    def owning():
        consumer.poll(timeout_ms=100)
        return bool(consumer.assignment()) and all(
            consumer.position(each) == 0 for each in consumer.assignment()
        )

    assert wait_until(owning)
    consumer.commit()
    yield consumer
    consumer.close()


def test_kafka_python_admin_client_describes_group(cluster, topic, member):
    group = member.config["group_id"]
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","))
    try:
        assert {"group_id": group, "protocol_type": "consumer"} in admin.list_groups()
        described = admin.describe_groups([group])[group]
        assert described["group_state"] == "Stable"
        assert described["protocol_data"] == "range"
        (member,) = described["members"]
        assert member["client_host"] == "/127.0.0.1"
        offsets = admin.list_group_offsets({group: None})[group]
        assert {p.partition: o.offset for p, o in offsets.items()} == {0: 0, 1: 0}
    finally:
        admin.close()


def test_confluent_admin_client_describes_alters_and_deletes_group(cluster, topic, member):
    group = member.config["group_id"]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})

    def listed():
        return [each.group_id for each in admin.list_consumer_groups().result().valid]

    assert group in listed()
    described = admin.describe_consumer_groups([group])[group].result()
    assert described.state.name == "STABLE"
    assert len(described.members[0].assignment.topic_partitions) == 2
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result()
    member.unsubscribe()  # leaves
    wanted = [ConfluentPartition(topic, 0, 17)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])[
        group
    ].result()
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    assert {p.partition: p.offset for p in found.topic_partitions} == {0: 17, 1: 0}
    admin.delete_consumer_groups([group])[group].result()
    assert group not in listed()
