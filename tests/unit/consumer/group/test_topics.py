"""Subscriptions of a member: names, and patterns that are matched again after a change."""

import re
from typing import Any

import pytest

from tests.support.played_cluster import PlayedCluster
from zkbroker.client.view import BrokerAddress
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group.topics import GroupTopics
from zkbroker.errors import InvalidTopic


@pytest.fixture
def cluster() -> PlayedCluster:
    # The last partition of each has no leader.
    cluster = PlayedCluster(
        leaders={"clicks": (0, None), "clicks-old": (None,), "__consumer_offsets": (None,) * 50}
    )
    cluster.addresses[0] = BrokerAddress(0, "a", 1, "north")
    return cluster


def topics_of(cluster: Any, notified: list[int], **settings: Any) -> GroupTopics:
    config = GroupConsumerConfig(bootstrap_servers=("b:1",), group_id="g", **settings)
    return GroupTopics(config, cluster, lambda: notified.append(1))


@pytest.mark.parametrize("topics", [b"clicks", [b"clicks"], [5], ["no/such"], "", "th\u00e8me"])
def test_subscribe_refuses_invalid_topic_names(cluster: PlayedCluster, topics: Any) -> None:
    one = topics_of(cluster, [])
    one.subscribe(["clicks"])
    with pytest.raises(InvalidTopic):
        one.subscribe(topics)
    assert one.names == {"clicks"}


@pytest.mark.parametrize("pattern", ["^.*", re.compile(".*")])
def test_pattern_excludes_internal_topics_by_default(
    cluster: PlayedCluster, pattern: str | re.Pattern[str]
) -> None:
    topics = topics_of(cluster, [])
    topics.subscribe(pattern)
    assert topics.names == {"clicks", "clicks-old"}
    every = topics_of(cluster, [], exclude_internal_topics=False)
    every.subscribe(pattern)
    assert every.names == set(cluster.leaders)


def test_subscribed_names_need_not_exist(cluster: PlayedCluster) -> None:
    topics = topics_of(cluster, [])
    topics.subscribe("not.yet.there")
    assert topics.names == {"not.yet.there"}
    topics.subscribe(["a", "b"])
    assert topics.names == {"a", "b"}
    assert not topics.check()
    topics.clear()
    assert topics.names == frozenset()


def test_topic_change_rematches_pattern(cluster: PlayedCluster) -> None:
    notified: list[int] = []
    topics = topics_of(cluster, notified)
    topics.subscribe("^clicks")
    assert not topics.check_due
    cluster.leaders["clicks-new"] = (None,)
    cluster.watchers[0]()
    assert (notified, topics.check_due) == ([1], True)
    assert topics.check()
    assert topics.names == {"clicks", "clicks-old", "clicks-new"}
    assert not topics.check_due
    assert not topics.check()


def test_partitions_to_assign_have_leaders_and_racks_without_missing_topics(
    cluster: PlayedCluster,
) -> None:
    found = topics_of(cluster, []).partitions_of({"clicks", "gone"})
    assert dict(found.counts) == {"clicks": 2}
    assert dict(found.leaders) == {("clicks", 0): 0}
    assert found.rack(("clicks", 0)) == "north"
    assert found.rack(("clicks", 1)) is None
