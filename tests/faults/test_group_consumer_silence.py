"""A coordinator that is paused beyond the session timeout: the member loses its partitions."""

import uuid

import pytest

from tests.support.producing import TestProducer
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import CommitFailed, GroupConsumer, RebalanceListener
from zkbroker.errors import ProtocolError


@pytest.fixture(scope="module")
def cluster(local_cluster):
    properties = {"group.min.session.timeout.ms": "500", "offsets.topic.num.partitions": "2"}
    with local_cluster(1, properties=properties) as running:
        yield running


class EventLog(RebalanceListener):
    def __init__(self):
        self.events = []

    def on_partitions_assigned(self, partitions):
        self.events.append("assigned")

    def on_partitions_revoked(self, partitions):
        self.events.append("revoked")

    def on_partitions_lost(self, partitions):
        self.events.append("lost")


def poll_until(consumer, condition):
    read = []
    for _ in range(600):
        try:
            read += consumer.poll(0.05)
        except ProtocolError:
            continue  # the broker is paused
        if condition(read):
            return read
    raise AssertionError(consumer.assignment())


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_member_loses_its_partitions_during_coordinator_silence_and_rejoins(cluster, runtime):
    topic = cluster.create_topic(partitions=2)
    log = EventLog()
    config = GroupConsumerConfig(
        bootstrap_servers=(cluster.bootstrap_servers,),
        group_id=f"silence-{uuid.uuid4().hex[:8]}",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        # Longer than a busy machine stands still.
        session_timeout_ms=4000,
        heartbeat_interval_ms=100,
        request_timeout_ms=1000,
    )
    producer = TestProducer(cluster.bootstrap_servers)
    with GroupConsumer(config, runtime=runtime) as consumer:
        consumer.subscribe([topic], log)
        producer.send(topic, 0, [b"before"])
        poll_until(consumer, bool)
        cluster.brokers[0].pause()
        try:
            poll_until(consumer, lambda _: not consumer.assignment())
        finally:
            cluster.brokers[0].resume()
        assert log.events == ["assigned", "lost"]
        with pytest.raises(CommitFailed):
            consumer.commit({(topic, 0): 99})
        # nothing was committed, so it reads from the start
        assert [m.value for m in poll_until(consumer, bool)] == [b"before"]
        assert log.events == ["assigned", "lost", "assigned"]
        # Under its old id, or a new one where the coordinator has ended its session meanwhile.
        consumer.commit({(topic, 0): 1})
        assert consumer.committed([(topic, 0)])[topic, 0].offset == 1
    producer.close()
