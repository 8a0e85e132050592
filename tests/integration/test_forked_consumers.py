"""The child of a fork can neither use nor harm the consumers of its parent."""

import os
from contextlib import contextmanager

import pytest

from zkbroker.client import Cluster, StaticSource
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import (
    AssignedConsumer,
    Consumer,
    FetchRequest,
    ForkedConsumer,
    GroupConsumer,
    SimpleConsumer,
)
from zkbroker.producer import KeyedMessage, Producer

REFUSED = 17


@contextmanager
def group(address, topic, zookeeper, runtime):
    config = GroupConsumerConfig(
        bootstrap_servers=(address,), group_id=f"g-{topic}", auto_offset_reset="earliest"
    )
    with GroupConsumer(config, runtime=runtime) as consumer:
        consumer.subscribe([topic])
        yield consumer, (message.value for message in consumer)


@contextmanager
def streams(address, topic, zookeeper, runtime):
    config = ConsumerConfig(
        zookeeper_connect=zookeeper, group_id=f"g-{topic}", auto_offset_reset="smallest"
    )
    with Consumer.create(config, runtime=runtime) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        yield connector, (message.value for message in stream)


@contextmanager
def assigned(address, topic, zookeeper, runtime):
    with (
        Cluster(StaticSource([address]), runtime=runtime) as cluster,
        AssignedConsumer(cluster, {(topic, 0): 0}, runtime=runtime) as consumer,
    ):
        yield consumer, (message.value for message in consumer)


@contextmanager
def simple(address, topic, zookeeper, runtime):
    host, port = address.split(":")
    with SimpleConsumer(host, int(port), runtime=runtime) as consumer:

        def values():
            offset = 0
            while True:
                found = consumer.fetch(FetchRequest(topic, 0, offset, 100_000))
                yield from (message.value for message in found)
                offset = found.next_offset

        yield consumer, values()


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
@pytest.mark.parametrize("opened", [group, streams, assigned, simple])
def test_forked_child_is_refused_and_parent_continues(opened, runtime, broker, zookeeper, topic):
    address = "{}:{}".format(*broker.address)
    config = ProducerConfig.from_properties(
        {"metadata.broker.list": address, "request.required.acks": "1"}
    )
    chroot = f"{zookeeper.connect_string}/shared-broker"
    with (
        Producer(config) as producer,
        opened(address, topic, chroot, runtime) as (consumer, values),
    ):
        producer.send(KeyedMessage(topic, b"before"))
        assert next(values) == b"before"
        pid = os.fork()
        if pid == 0:
            try:
                with consumer:
                    next(values)
            except ForkedConsumer:
                os._exit(REFUSED)
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == REFUSED
        producer.send(KeyedMessage(topic, b"after"))
        assert next(values) == b"after"
