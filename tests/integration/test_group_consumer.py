"""`GroupConsumer` against real brokers, on threads and on gevent."""

import re
import time
import uuid

import pytest

from examples.assignors import RackAssignor
from tests.support.brokers import connect
from tests.support.process import wait_until
from tests.support.producing import TestProducer
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer import (
    CommitFailed,
    Committed,
    ConsumerClosed,
    GroupConsumer,
    NotOwned,
    RebalanceListener,
    string_decoder,
)
from zkbroker.errors import ClientError, ConfigError, ErrorCode, OffsetOutOfRange, ProtocolError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import (
    CreatePartitionsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    OffsetFetchRequest,
)
from zkbroker.protocol.messages.topics import NewPartitions
from zkbroker.runtime import get_runtime


@pytest.fixture(scope="module")
def cluster(local_cluster):
    properties = {"group.min.session.timeout.ms": "500", "offsets.topic.num.partitions": "4"}
    with local_cluster(2, properties=properties) as running:
        yield running


@pytest.fixture(scope="module")
def producer(cluster):
    sender = TestProducer(cluster.bootstrap_servers)
    yield sender
    sender.close()


@pytest.fixture(params=["threads", "gevent"])
def runtime(request):
    return request.param


class RecordingListener(RebalanceListener):
    def __init__(self):
        self.events = []

    def on_partitions_revoked(self, partitions):
        self.events.append(("revoked", sorted(partitions)))

    def on_partitions_assigned(self, partitions):
        self.events.append(("assigned", sorted(partitions)))


class GroupSetup:
    """A topic with messages, a group, and consumers that are closed at the end."""

    def __init__(self, cluster, producer, runtime):
        self.cluster, self.producer, self.runtime = cluster, producer, runtime
        self.group = f"group-{uuid.uuid4().hex[:8]}"
        self.consumers = []

    def topic(self, partitions=2, each=10):
        name = f"topic-{uuid.uuid4().hex[:8]}"
        self.cluster.create_topic(name, partitions=partitions)
        self.fill(name, partitions, each)
        return name

    def fill(self, topic, partitions, each):
        for number in range(partitions):
            if each:
                self.producer.send(topic, number, [b"%d" % n for n in range(each)])

    def consumer(self, *, options=(), **settings):
        chosen = {
            "bootstrap_servers": tuple(self.cluster.bootstrap_servers.split(",")),
            "group_id": self.group,
            "auto_offset_reset": "earliest",
            "session_timeout_ms": 30_000,
            "heartbeat_interval_ms": 100,
            "fetch_max_wait_ms": 50,
            **settings,
        }
        consumer = GroupConsumer(
            GroupConsumerConfig(**chosen), runtime=self.runtime, **dict(options)
        )
        self.consumers.append(consumer)
        return consumer

    def until(self, condition, *consumers):
        """Poll these consumers until the condition holds; returns what they read."""
        read = []
        deadline = time.monotonic() + 120
        while not condition(read):
            for consumer in consumers:
                read += consumer.poll(0.02)
            assert time.monotonic() < deadline, [(c.assignment(), c.generation) for c in consumers]
        return read

    def close(self):
        for consumer in self.consumers:
            consumer.close()


@pytest.fixture
def setup(cluster, producer, runtime):
    made = GroupSetup(cluster, producer, runtime)
    yield made
    made.close()


def count(expected):
    return lambda read: len(read) >= expected


def test_subscriber_reads_in_order_and_commits_at_close(setup):
    topic = setup.topic(3)
    consumer = setup.consumer(max_poll_records=7)
    consumer.subscribe([topic])
    read = setup.until(count(30), consumer)
    for number in range(3):
        mine = [m for m in read if m.partition == number]
        assert [m.offset for m in mine] == list(range(10))
        assert [m.value for m in mine] == [b"%d" % n for n in range(10)]
    assert consumer.subscription() == {topic}
    assert consumer.assignment() == {(topic, number) for number in range(3)}
    assert consumer.position(topic, 0) == 10
    consumer.close()
    again = setup.consumer()
    assert again.committed([(topic, 0), (topic, 9)]) == {
        (topic, 0): Committed(10),
        (topic, 9): None,
    }
    again.subscribe([topic])
    setup.until(lambda _: again.assignment(), again)
    assert again.poll(0.3) == []
    with pytest.raises(ConsumerClosed):
        consumer.poll()


def test_unprocessed_messages_are_not_committed(setup):
    topic = setup.topic(1)
    consumer = setup.consumer(max_poll_records=4, auto_commit_interval_ms=1)
    consumer.subscribe([topic])
    setup.until(count(4), consumer)
    # If an earlier poll served the reset alone, its offset may be committed.
    assert consumer.committed([(topic, 0)])[topic, 0] in (None, Committed(0))
    setup.until(lambda _: consumer.committed([(topic, 0)])[topic, 0] == Committed(10), consumer)


def test_messages_in_hand_at_an_exception_are_not_committed(setup):
    topic = setup.topic(1)
    consumer = setup.consumer(max_poll_records=4)
    with pytest.raises(ValueError, match="not stored"), consumer:
        consumer.subscribe([topic])
        setup.until(count(8), consumer)
        raise ValueError("not stored")
    assert setup.consumer().committed([(topic, 0)]) == {(topic, 0): Committed(4)}


def test_reset_position_is_committed_without_messages(setup):
    topic = setup.topic(1, each=0)
    consumer = setup.consumer(auto_commit_interval_ms=1)
    consumer.subscribe([topic])
    setup.until(lambda _: consumer.committed([(topic, 0)])[topic, 0] == Committed(0), consumer)


def test_iteration_commits_only_yielded_messages(setup):
    topic = setup.topic(1)
    consumer = setup.consumer(enable_auto_commit=False)
    consumer.subscribe(topic)
    for message in consumer:
        if message.offset == 3:
            break
    consumer.commit()
    assert consumer.committed([(topic, 0)]) == {(topic, 0): Committed(4)}
    assert [m.offset for m in consumer.poll()] == [4, 5, 6, 7, 8, 9]  # continues after the commit


def test_remaining_member_takes_over_partitions(setup):
    topic = setup.topic(4)
    log = RecordingListener()
    first, second = setup.consumer(), setup.consumer()
    first.subscribe([topic], log)
    setup.until(lambda _: len(first.assignment()) == 4, first)
    second.subscribe([topic])
    setup.until(lambda _: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    share = sorted(first.assignment())
    assert first.generation == second.generation
    assert not first.assignment() & second.assignment()
    second.close()
    setup.until(lambda _: len(first.assignment()) == 4, first)
    every = [(topic, number) for number in range(4)]
    assert log.events == [
        ("assigned", every),
        ("revoked", every),
        ("assigned", share),
        ("revoked", share),
        ("assigned", every),
    ]


def test_rebalance_redelivers_no_message(setup):
    topic = setup.topic(4, each=200)
    first = setup.consumer(max_poll_records=10)
    first.subscribe([topic])
    read = setup.until(count(100), first)
    second = setup.consumer(max_poll_records=10)
    second.subscribe([topic])
    read += setup.until(lambda _: second.assignment(), first, second)
    read += setup.until(count(800 - len(read)), first, second)
    assert len(read) == len({(m.partition, m.offset) for m in read}) == 800


def test_pattern_includes_topics_created_later(setup):
    prefix = f"pattern-{uuid.uuid4().hex[:6]}"
    setup.cluster.create_topic(f"{prefix}-a", partitions=1)
    consumer = setup.consumer(metadata_max_age_ms=200)
    consumer.subscribe(re.compile(f"{prefix}-[ab]$"))
    setup.until(lambda _: consumer.assignment() == {(f"{prefix}-a", 0)}, consumer)
    setup.cluster.create_topic(f"{prefix}-b", partitions=1)
    setup.cluster.create_topic(f"{prefix}-c", partitions=1)
    both = {(f"{prefix}-a", 0), (f"{prefix}-b", 0)}
    setup.until(lambda _: consumer.assignment() == both, consumer)


def test_added_partitions_are_assigned(setup):
    topic = setup.topic(1)
    consumer = setup.consumer(metadata_max_age_ms=200)
    consumer.subscribe([topic])
    setup.until(count(10), consumer)
    with connect(setup.cluster.brokers[0]) as connection:
        answer = connection.request(CreatePartitionsRequest([NewPartitions(topic, 3)]))
        assert answer.topics[0].error_code == 0
    setup.until(lambda _: len(consumer.assignment()) == 3, consumer)


def test_seek_pause_and_position(setup):
    topic = setup.topic(2)
    consumer = setup.consumer(enable_auto_commit=False)
    consumer.subscribe([topic])
    setup.until(count(20), consumer)
    consumer.seek(topic, 0, 7)
    assert consumer.position(topic, 0) == 7
    assert [m.offset for m in setup.until(count(3), consumer)] == [7, 8, 9]
    consumer.seek_to_beginning((topic, 1))
    consumer.pause((topic, 1))
    assert consumer.paused() == {(topic, 1)}
    setup.fill(topic, 1, 5)
    assert {m.partition for m in setup.until(count(5), consumer)} == {0}
    assert consumer.poll(0.2) == []
    consumer.resume((topic, 1))
    assert [(m.partition, m.offset) for m in setup.until(count(10), consumer)] == [
        (1, offset) for offset in range(10)
    ]
    consumer.seek_to_end()
    setup.fill(topic, 1, 1)
    assert [m.offset for m in setup.until(count(1), consumer)] == [15]
    with pytest.raises(NotOwned):
        consumer.seek(topic, 5, 0)


def test_listener_may_seek_before_first_message(setup):
    topic = setup.topic(1)

    class FromTheEnd(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            for name, number in partitions:
                consumer.seek(name, number, 8)

    consumer = setup.consumer()
    consumer.subscribe([topic], FromTheEnd())
    assert [m.offset for m in setup.until(count(2), consumer)] == [8, 9]


def test_commits_with_metadata_sync_and_async(setup):
    topic = setup.topic(2)
    consumer = setup.consumer(enable_auto_commit=False)
    consumer.subscribe([topic])
    setup.until(count(20), consumer)
    consumer.commit({(topic, 0): Committed(3, "so far"), (topic, 1): 4})
    both = [(topic, 0), (topic, 1)]
    assert consumer.committed(both) == {both[0]: Committed(3, "so far"), both[1]: Committed(4)}
    reports = []
    consumer.commit_async(on_commit=lambda offsets, error: reports.append((dict(offsets), error)))
    setup.until(lambda _: reports, consumer)
    assert reports == [({both[0]: Committed(10), both[1]: Committed(10)}, None)]
    assert consumer.committed(both) == reports[0][0]


def test_partition_given_up_by_assign_is_committed(setup):
    topic = setup.topic(2)
    both = [(topic, 0), (topic, 1)]
    consumer = setup.consumer(auto_commit_interval_ms=600_000)
    consumer.assign(both)
    setup.until(count(20), consumer)
    consumer.assign(both[1:])
    assert consumer.committed(both) == {both[0]: Committed(10), both[1]: None}


def test_manual_assignment_needs_no_group(setup):
    topic = setup.topic(2)
    consumer = setup.consumer(group_id="")
    consumer.assign([(topic, 1)])
    assert {m.partition for m in setup.until(count(10), consumer)} == {1}
    consumer.assign([(topic, 0), (topic, 1)])
    assert {m.partition for m in setup.until(count(10), consumer)} == {0}
    with pytest.raises(ClientError, match=r"group\.id"):
        consumer.commit()
    with pytest.raises(ClientError, match="by hand"):
        consumer.subscribe([topic])


def test_member_without_polls_leaves_and_rejoins_at_next_poll(setup):
    topic = setup.topic(2)
    slow = setup.consumer(max_poll_interval_ms=800, enable_auto_commit=False)
    log = RecordingListener()
    slow.subscribe([topic], log)
    setup.until(count(20), slow)
    other = setup.consumer(max_poll_interval_ms=800)
    other.subscribe([topic])
    setup.until(lambda _: len(other.assignment()) == 2, other)  # `slow` does not poll
    with pytest.raises(CommitFailed):
        slow.commit()
    setup.until(
        lambda _: slow.generation == other.generation and slow.assignment() and other.assignment(),
        slow,
        other,
    )
    assert not slow.assignment() & other.assignment()
    assert log.events[1][0] == "revoked"


def test_members_use_most_preferred_common_strategy(setup):
    topic = setup.topic(6)
    lists = [("range", "sticky"), ("sticky", "range"), ("sticky", "range")]
    members = [setup.consumer(strategies=names) for names in lists]
    for member in members:
        member.subscribe([topic])
    setup.until(lambda _: all(len(m.assignment()) == 2 for m in members), *members)
    with connect(setup.cluster.brokers[0]) as anyone:
        found = anyone.request(FindCoordinatorRequest(setup.group))
    with BrokerConnection(get_runtime("threads"), found.host, found.port) as coordinator:
        (described,) = coordinator.request(DescribeGroupsRequest([setup.group])).groups
    assert described.protocol_name == "sticky"


def test_member_without_common_strategy_gets_error(setup):
    topic = setup.topic(1)
    first = setup.consumer(strategies=("range",))
    first.subscribe([topic])
    setup.until(lambda _: first.assignment(), first)
    other = setup.consumer(strategies=("roundrobin",))
    other.subscribe([topic])
    with pytest.raises(ProtocolError, match="INCONSISTENT_GROUP_PROTOCOL"):
        setup.until(lambda _: False, other)
    with pytest.raises(ConfigError, match="range, roundrobin, sticky"):
        setup.consumer(strategies=("best",))


def test_custom_strategy_receives_user_data(setup):
    topic = setup.topic(4)
    members = [
        setup.consumer(strategies=("rack",), options={"assignors": [RackAssignor(f"rack{n}")]})
        for n in range(2)
    ]
    for member in members:
        member.subscribe([topic])
    setup.until(lambda _: all(len(m.assignment()) == 2 for m in members), *members)


def test_out_of_range_offset_raises_without_reset_policy(setup):
    topic = setup.topic(1)
    consumer = setup.consumer(auto_offset_reset="none")
    consumer.subscribe([topic])
    with pytest.raises(OffsetOutOfRange, match="no committed offset"):
        setup.until(count(1), consumer)
    consumer.seek(topic, 0, 4)
    assert [m.offset for m in setup.until(count(6), consumer)] == [4, 5, 6, 7, 8, 9]
    consumer.seek(topic, 0, 999)
    with pytest.raises(OffsetOutOfRange) as caught:
        setup.until(count(1), consumer)
    assert (caught.value.earliest, caught.value.latest) == (0, 10)


def test_decoder_error_is_raised_after_earlier_messages(setup):
    topic = setup.topic(1, each=0)
    setup.producer.send(topic, 0, [b"good", b"\xff", b"again", None])
    consumer = setup.consumer(options={"value_decoder": string_decoder()})
    consumer.subscribe([topic])
    values = []
    while len(values) < 3:
        try:
            values += [m.value for m in consumer.poll(0.1)]
        except UnicodeDecodeError:
            assert values == ["good"]
    assert values == ["good", "again", None]


def test_offsets_by_time_and_log_ends(setup):
    topic = setup.topic(1, each=0)
    first_ms = int(time.time() * 1000)
    setup.producer.send(topic, 0, [b"x"] * 10, timestamp_ms=first_ms)  # a millisecond apart
    consumer = setup.consumer()
    key = (topic, 0)
    assert consumer.offsets_for_times({key: first_ms + 4}) == {key: 4}
    assert consumer.offsets_for_times({key: first_ms + 60_000}) == {key: None}
    assert consumer.beginning_offsets([key]) == {key: 0}
    assert consumer.end_offsets([key]) == {key: 10}


def test_wakeup_ends_waiting_poll(setup):
    consumer = setup.consumer()
    topic = setup.topic(1, each=0)
    consumer.subscribe([topic])
    setup.until(lambda _: consumer.assignment(), consumer)
    waker = get_runtime(setup.runtime)
    waker.spawn(lambda: (waker.sleep(0.2), consumer.wakeup()), name="waker")
    started = time.monotonic()
    assert consumer.poll(300) == []
    assert time.monotonic() - started < 200


def test_unsubscribe_leaves_group(setup):
    topic = setup.topic(2)
    first, second = setup.consumer(), setup.consumer()
    first.subscribe([topic])
    setup.until(lambda _: len(first.assignment()) == 2, first)
    first.unsubscribe()
    assert (first.assignment(), first.generation, first.member_id) == (set(), -1, "")
    second.subscribe([topic])
    setup.until(lambda _: len(second.assignment()) == 2, second)
    first.assign([(topic, 0)])


def test_zookeeper_locates_brokers(setup):
    topic = setup.topic(1)
    consumer = setup.consumer(bootstrap_servers=(), zookeeper_connect=setup.cluster.zookeeper)
    consumer.subscribe([topic])
    assert len(setup.until(count(10), consumer)) == 10


def test_brokers_refuse_groups_of_other_coordinators(cluster):
    connections = {each.address[1]: connect(each) for each in cluster.brokers}
    anyone = next(iter(connections.values()))
    found = {}
    try:
        for number in range(12):
            group = f"spread-{number}"
            assert wait_until(
                lambda group=group: anyone.request(FindCoordinatorRequest(group)).error_code == 0
            )
            port = anyone.request(FindCoordinatorRequest(group)).port
            found.setdefault(port, []).append(group)
            for own, connection in connections.items():
                code = connection.request(OffsetFetchRequest(group, [])).error_code
                assert (code == ErrorCode.NOT_COORDINATOR) == (own != port)
        assert set(found) == set(connections)
    finally:
        for connection in connections.values():
            connection.close()
