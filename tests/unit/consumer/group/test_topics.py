"""What a member subscribes to: names, or what a pattern matches, looked at again after a change."""

import re
from typing import Any

import pytest

from zkbroker.client.view import BrokerAddress, PartitionInfo
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group.topics import GroupTopics
from zkbroker.errors import InvalidTopic, UnknownTopicOrPartition


class Cluster:
    def __init__(self) -> None:
        self.known = {"clicks": 2, "clicks-old": 1, "__consumer_offsets": 50}
        self.callback: Any = None

    def watch(self, callback: Any) -> Any:
        self.callback = callback
        return lambda: None

    def topics(self) -> list[str]:
        return sorted(self.known)

    def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        if topic not in self.known:
            raise UnknownTopicOrPartition(topic)
        # The last partition has no leader.
        count = self.known[topic]
        return tuple(PartitionInfo(topic, n, None if n == count - 1 else n) for n in range(count))

    def brokers(self) -> dict[int, BrokerAddress]:
        return {0: BrokerAddress(0, "a", 1, "north"), 1: BrokerAddress(1, "b", 1)}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def topics_of(cluster: Any, notified: list[int], **settings: Any) -> GroupTopics:
    config = GroupConsumerConfig(bootstrap_servers=("b:1",), group_id="g", **settings)
    return GroupTopics(config, cluster, lambda: notified.append(1))


@pytest.mark.parametrize("topics", [b"clicks", [b"clicks"], [5], ["no/such"], "", "th\u00e8me"])
def test_names_that_no_topic_can_have_are_refused(cluster: Cluster, topics: Any) -> None:
    one = topics_of(cluster, [])
    one.subscribe(["clicks"])
    with pytest.raises(InvalidTopic):
        one.subscribe(topics)
    assert one.names == {"clicks"}


@pytest.mark.parametrize("pattern", ["^.*", re.compile(".*")])
def test_a_pattern_leaves_internal_topics_out_by_default(
    cluster: Cluster, pattern: str | re.Pattern[str]
) -> None:
    topics = topics_of(cluster, [])
    topics.subscribe(pattern)
    assert topics.names == {"clicks", "clicks-old"}
    every = topics_of(cluster, [], exclude_internal_topics=False)
    every.subscribe(pattern)
    assert every.names == set(cluster.known)


def test_names_are_taken_as_they_are(cluster: Cluster) -> None:
    topics = topics_of(cluster, [])
    topics.subscribe("not.yet.there")
    assert topics.names == {"not.yet.there"}
    topics.subscribe(["a", "b"])
    assert topics.names == {"a", "b"}
    assert not topics.look()
    topics.clear()
    assert topics.names == frozenset()


def test_a_change_of_topics_matches_the_pattern_again(cluster: Cluster) -> None:
    notified: list[int] = []
    topics = topics_of(cluster, notified)
    topics.subscribe("^clicks")
    assert not topics.look_due
    cluster.known["clicks-new"] = 1
    cluster.callback()
    assert (notified, topics.look_due) == ([1], True)
    assert topics.look()
    assert topics.names == {"clicks", "clicks-old", "clicks-new"}
    assert not topics.look_due
    assert not topics.look()


def test_what_is_shared_out_has_leaders_and_racks_and_no_missing_topics(cluster: Cluster) -> None:
    found = topics_of(cluster, []).partitions_of({"clicks", "gone"})
    assert dict(found.counts) == {"clicks": 2}
    assert dict(found.leaders) == {("clicks", 0): 0}
    assert found.rack(("clicks", 0)) == "north"
    assert found.rack(("clicks", 1)) is None
