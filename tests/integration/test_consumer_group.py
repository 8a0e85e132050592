"""High-level consumers against real brokers and a real ZooKeeper, on threads and on gevent."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.clusters import module_cluster
from tests.support.producing import TestProducer
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import (
    EARLIEST_TIME,
    LATEST_TIME,
    Blacklist,
    Consumer,
    ConsumerConnector,
    KafkaStream,
    NotOwned,
    Whitelist,
    string_decoder,
)
from zkbroker.rebalance import roundrobin_assign
from zkbroker.registry import group_offsets, groups
from zkbroker.registry.topics import add_partitions
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

TopicPartition = tuple[str, int]


cluster = module_cluster(2)


@pytest.fixture(scope="module")
def producer(cluster: LocalCluster) -> Iterator[TestProducer]:
    sender = TestProducer(cluster.bootstrap_servers)
    yield sender
    sender.close()


class Group:
    """Members of one group, each reading all its streams in tasks of its own."""

    def __init__(self, cluster: LocalCluster, group: str, runtime: str) -> None:
        self.cluster = cluster
        self.name = group
        self.runtime = get_runtime(runtime)
        self.connectors: list[ConsumerConnector] = []
        self.read: list[tuple[int, TopicPartition, int, bytes]] = []
        self._tasks: list[Any] = []

    def config(self, **settings: Any) -> ConsumerConfig:
        chosen = {
            "group_id": self.name,
            "zookeeper_connect": self.cluster.zookeeper,
            "auto_offset_reset": "smallest",
            "rebalance_backoff_ms": 500,
            "refresh_leader_backoff_ms": 50,
            **settings,
        }
        return ConsumerConfig(**chosen)

    def connector(self, **settings: Any) -> ConsumerConnector:
        connector = Consumer.create(self.config(**settings), runtime=self.runtime)
        self.connectors.append(connector)
        return connector

    def join(self, streams: dict[str, int], **settings: Any) -> ConsumerConnector:
        connector = self.connector(**settings)
        made = connector.create_message_streams(streams)
        self.follow(connector, [stream for several in made.values() for stream in several])
        return connector

    def follow(self, connector: ConsumerConnector, streams: list[KafkaStream]) -> None:
        number = self.connectors.index(connector)

        def reader(stream: KafkaStream) -> None:
            for message in stream:
                key = message.topic, message.partition
                self.read.append((number, key, message.offset, message.value))

        for stream in streams:
            self._tasks.append(self.runtime.spawn(reader, stream, name="reader"))

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not condition():
            assert time.monotonic() < deadline, f"read {len(self.read)}, owned {self.owned()}"
            self.runtime.sleep(0.01)

    def owned(self) -> list[set[TopicPartition]]:
        return [connector.owned() for connector in self.connectors if not connector.closed]

    def until_owning(self, partitions: set[TopicPartition]) -> None:
        """Wait until live members own all the partitions between them, each some of them."""

        def settled() -> bool:
            owned = self.owned()
            together = [key for share in owned for key in share]
            busy = sum(1 for share in owned if share)
            return sorted(together) == sorted(partitions) and busy == min(
                len(owned), len(partitions)
            )

        self.until(settled)

    def offsets(self) -> list[tuple[TopicPartition, int]]:
        return sorted((key, offset) for _, key, offset, _ in self.read)

    def close(self) -> None:
        for connector in self.connectors:
            connector.shutdown()
        for task in self._tasks:
            assert task.join(60)


@pytest.fixture(params=["threads", "gevent"])
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def group(
    cluster: LocalCluster, runtime: str, request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Group]]:
    made: list[Group] = []

    def make(name: str) -> Group:
        made.append(Group(cluster, f"{name}-{runtime}", runtime))
        return made[-1]

    yield make
    for each in made:
        each.close()


Make = Callable[[str], Group]


def all_offsets(topic: str, counts: list[int]) -> list[tuple[TopicPartition, int]]:
    return [((topic, p), offset) for p, count in enumerate(counts) for offset in range(count)]


def test_members_share_topic_while_others_join_and_leave(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic(partitions=5)
    partitions = {(topic, p) for p in range(5)}
    members = group("share")

    def produce(count: int) -> None:
        for p in range(5):
            producer.send(topic, p, [b"%d" % i for i in range(count)])

    produce(100)
    first = members.join({topic: 1})
    members.join({topic: 2})
    members.until_owning(partitions)
    members.until(lambda: len(members.read) >= 500)
    produce(100)
    members.join({topic: 1})
    members.until_owning(partitions)
    members.until(lambda: len(members.read) >= 1000)
    first.shutdown()
    members.until_owning(partitions)
    produce(100)
    members.until(lambda: len(members.read) >= 1500)
    # Readers asked for the next message before each rebalance, so none was repeated.
    assert members.offsets() == all_offsets(topic, [300] * 5)
    assert len({number for number, *_ in members.read}) == 3


def test_one_partition_feeds_one_stream_in_order(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic(partitions=4)
    for p in range(4):
        producer.send(topic, p, [b"%d" % i for i in range(50)])
    members = group("order")
    connector = members.connector(consumer_timeout_ms=120_000)
    streams = connector.create_message_streams({topic: 2}, value_decoder=string_decoder())[topic]
    for number, stream in enumerate(streams):
        read = (next(stream) for _ in range(100))
        seen = [(message.partition, message.offset, message.value) for message in read]
        for p in (2 * number, 2 * number + 1):
            assert [m for m in seen if m[0] == p] == [(p, i, str(i)) for i in range(50)]
    assert connector.positions() == {(topic, p): 50 for p in range(4)}


def test_next_member_continues_at_committed_offsets(
    cluster: LocalCluster, producer: TestProducer, group: Make, runtime: str
) -> None:
    topic = cluster.create_topic()
    producer.send(topic, 0, [b"%d" % i for i in range(10)])
    members = group("resume")
    connector = members.connector(auto_commit_enable=False)
    stream = connector.create_message_streams({topic: 1})[topic][0]
    assert [next(stream).offset for _ in range(4)] == [0, 1, 2, 3]
    connector.commit_offsets()
    assert [next(stream).offset for _ in range(2)] == [4, 5]
    connector.shutdown()
    with ZkSession(cluster.zookeeper) as session:
        assert session.get(f"/consumers/{members.name}/offsets/{topic}/0")[0] == b"4"
        assert groups.members(session, members.name) == []
        assert groups.owners(session, members.name, topic) == {}
    second = members.connector()
    stream = second.create_message_streams({topic: 1})[topic][0]
    assert [next(stream).offset for _ in range(3)] == [4, 5, 6]
    second.shutdown()
    third = members.connector()
    assert next(third.create_message_streams({topic: 1})[topic][0]).offset == 7


def test_message_that_raised_in_with_block_is_redelivered(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic()
    producer.send(topic, 0, [b"%d" % i for i in range(5)])
    members = group("raise")
    with (
        pytest.raises(ZeroDivisionError),
        members.connector() as connector,
    ):
        for message in connector.create_message_streams({topic: 1})[topic][0]:
            _ = 1 / (2 - message.offset)
    with members.connector() as connector:
        assert next(connector.create_message_streams({topic: 1})[topic][0]).offset == 2
    # The block ended well: the message in hand was dealt with.
    with members.connector() as connector:
        assert next(connector.create_message_streams({topic: 1})[topic][0]).offset == 3


def test_given_offsets_are_committed_and_unowned_refused(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic()
    producer.send(topic, 0, [b"a"])
    members = group("given")
    connector = members.connector(auto_commit_enable=False)
    next(connector.create_message_streams({topic: 1})[topic][0])
    connector.commit_offsets({(topic, 0): 77})
    with pytest.raises(NotOwned, match="other"):
        connector.commit_offsets({(topic, 0): 78, ("other", 0): 1})
    with ZkSession(cluster.zookeeper) as session:
        offset = group_offsets.read_offset(session, members.name, topic, 0)
    assert offset is not None
    assert offset[0] == 78


def test_automatic_commit_excludes_message_in_hand(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic()
    producer.send(topic, 0, [b"%d" % i for i in range(10)])
    members = group("auto")
    connector = members.connector(auto_commit_interval_ms=20)
    stream = connector.create_message_streams({topic: 1})[topic][0]
    for _ in range(4):
        next(stream)
    with ZkSession(cluster.zookeeper) as session:
        members.until(
            lambda: (group_offsets.read_offset(session, members.name, topic, 0) or (0, 0))[0] == 3
        )


def test_filter_includes_topic_created_later(
    cluster: LocalCluster, producer: TestProducer, group: Make, runtime: str
) -> None:
    prefix = f"live-{runtime}"
    cluster.create_topic(f"{prefix}-a")
    cluster.create_topic(f"{prefix}-skipped")
    members = group("filter")
    for topic_filter in (
        Whitelist(f"{prefix}-(?!skipped).*"),
        Blacklist(f"(?!{prefix}).*|.*skip.*"),
    ):
        connector = members.connector()
        members.follow(connector, connector.create_message_streams_by_filter(topic_filter))
    members.until_owning({(f"{prefix}-a", 0)})
    cluster.create_topic(f"{prefix}-b", partitions=3)
    cluster.create_topic(f"other-{prefix}")
    members.until_owning({(f"{prefix}-a", 0), *((f"{prefix}-b", p) for p in range(3))})
    producer.send(f"{prefix}-b", 2, [b"hello"])
    members.until(lambda: [m[3] for m in members.read] == [b"hello"])
    with ZkSession(cluster.zookeeper) as session:
        patterns = {
            subscription.pattern
            for subscription in groups.subscriptions(session, members.name).values()
            if subscription is not None
        }
    assert patterns == {"white_list", "black_list"}


def test_subscribed_topic_may_be_created_later(
    cluster: LocalCluster, producer: TestProducer, group: Make, runtime: str
) -> None:
    topic = f"later-{runtime}"
    members = group("later")
    members.join({topic: 1})
    cluster.create_topic(topic)
    producer.send(topic, 0, [b"x"])
    members.until(lambda: members.offsets() == [((topic, 0), 0)])


def test_added_partitions_are_consumed(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic(partitions=1)
    members = group("grow")
    members.join({topic: 1})
    members.join({topic: 1})
    members.until_owning({(topic, 0)})
    with ZkSession(cluster.zookeeper) as session:
        add_partitions(session, topic, {1: [1], 2: [2]})
    members.until_owning({(topic, p) for p in range(3)})
    for p in range(3):
        producer.send(topic, p, [b"x"])
    members.until(lambda: members.offsets() == all_offsets(topic, [1, 1, 1]))


def test_round_robin_assigns_partitions_of_all_topics(cluster: LocalCluster, group: Make) -> None:
    topics = [cluster.create_topic(partitions=count) for count in (1, 2, 4)]
    members = group("roundrobin")
    for _ in range(2):
        members.join(dict.fromkeys(topics, 1), partition_assignment_strategy="roundrobin")
    partitions = {
        (topic, p) for topic, count in zip(topics, (1, 2, 4), strict=True) for p in range(count)
    }
    members.until_owning(partitions)
    threads = {
        topic: sorted(f"{connector.consumer_id}-0" for connector in members.connectors)
        for topic in topics
    }
    shares = roundrobin_assign(
        {topic: list(range(count)) for topic, count in zip(topics, (1, 2, 4), strict=True)},
        threads,
    )
    for connector in members.connectors:
        mine = {key for key, thread in shares.items() if thread == f"{connector.consumer_id}-0"}
        assert connector.owned() == mine
        assert len(mine) in (3, 4)


def test_seek_and_rewind_by_offset_and_time(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic()
    producer.send(topic, 0, [b"%d" % i for i in range(10)], timestamp_ms=1_000_000)
    members = group("seek")
    connector = members.connector(consumer_timeout_ms=120_000)
    stream = connector.create_message_streams({topic: 1})[topic][0]
    assert next(stream).offset == 0
    connector.seek(topic, 0, 8)
    assert [next(stream).offset for _ in range(2)] == [8, 9]
    connector.rewind(1_000_003)
    assert next(stream).offset == 3
    connector.rewind(EARLIEST_TIME, topic)
    assert next(stream).offset == 0
    connector.rewind(LATEST_TIME, topic, 0)
    producer.send(topic, 0, [b"new"])
    assert next(stream).offset == 10
    connector.rewind(2_000_000_000_000)
    assert connector.positions() == {(topic, 0): 11}
    with pytest.raises(NotOwned):
        connector.seek("other", 0, 1)
    with pytest.raises(NotOwned):
        connector.rewind(0, "other")


def test_lag_and_counts_are_reported(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic(partitions=2)
    producer.send(topic, 0, [b"%d" % i for i in range(10)])
    connector = group("lag").connector()
    stream = connector.create_message_streams({topic: 1})[topic][0]
    for _ in range(4):
        next(stream)
    assert connector.lag()[topic, 0] == 6
    metrics = connector.metrics()
    assert (metrics["owned_partitions"], metrics["lag"], metrics["rebalances"]) == (2, 6, 1)
    assert metrics["fetches"] >= 1
    assert metrics["fetched_bytes"] > 10


def test_listener_chooses_start_offsets(
    cluster: LocalCluster, producer: TestProducer, group: Make
) -> None:
    topic = cluster.create_topic(partitions=2)
    for p in range(2):
        producer.send(topic, p, [b"%d" % i for i in range(10)])
    members = group("listener")
    connector = members.connector()
    calls: list[tuple[str, list[TopicPartition]]] = []

    class Listener:
        def before_releasing_partitions(self, owned: Any) -> None:
            calls.append(("released", sorted(owned)))

        def before_starting_fetchers(self, consumer_id: str, owned: Any) -> None:
            assert consumer_id == connector.consumer_id
            calls.append(("started", sorted(owned)))
            for name, number in owned:
                connector.seek(name, number, 7)
            raise ValueError("what a listener raises stops nothing")

    connector.add_rebalance_listener(Listener())
    members.follow(connector, connector.create_message_streams({topic: 1})[topic])
    members.until(lambda: len(members.read) == 6)
    assert {offset for _, _, offset, _ in members.read} == {7, 8, 9}
    connector.shutdown()
    both = [(topic, 0), (topic, 1)]
    assert calls == [("started", both), ("released", both)]
