import threading

import pytest

from tests.support.zookeeper import expire, until
from zkbroker.errors import ErrorCode, InvalidTopic, ProtocolError
from zkbroker.registry import paths, topics
from zkbroker.registry.topics_watch import TopicsView, TopicsWatch
from zkbroker.zookeeper import NodeExists, NoNode, ZkSession


def test_topic_is_created_once_with_its_settings(zk: ZkSession) -> None:
    topics.create_topic(zk, "t", {0: [1], 1: [2]}, {"retention.ms": "1000"})
    assert topics.list_topics(zk) == ["t"]
    assert topics.assignment(zk, "t") == {0: (1,), 1: (2,)}
    assert topics.topic_config(zk, "t") == {"retention.ms": "1000"}
    with pytest.raises(NodeExists):
        topics.create_topic(zk, "t", {0: [1]})
    with pytest.raises(InvalidTopic):
        topics.create_topic(zk, "a/b", {0: [1]})
    assert topics.topic_config(zk, "t") == {"retention.ms": "1000"}
    assert topics.assignment(zk, "none") is None
    assert topics.topic_config(zk, "none") == {}
    assert topics.assignments(zk) == {"t": {0: (1,), 1: (2,)}}


def test_partitions_are_added_and_existing_ones_are_refused(zk: ZkSession) -> None:
    topics.create_topic(zk, "t", {0: [1]})
    assert topics.add_partitions(zk, "t", {1: [2]}) == {0: (1,), 1: (2,)}
    with pytest.raises(ProtocolError, match="partition 1 of topic t exists") as raised:
        topics.add_partitions(zk, "t", {1: [3]})
    assert raised.value.code is ErrorCode.INVALID_PARTITIONS
    with pytest.raises(NoNode):
        topics.add_partitions(zk, "none", {1: [3]})


def test_concurrent_partition_additions_are_all_kept(zk: ZkSession) -> None:
    topics.create_topic(zk, "t", {0: [1]})
    tasks = [
        threading.Thread(target=topics.add_partitions, args=(zk, "t", {n: [1]}))
        for n in range(1, 9)
    ]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    assert topics.assignment(zk, "t") == dict.fromkeys(range(9), (1,))


def test_topic_is_marked_for_deletion_and_removed(zk: ZkSession) -> None:
    topics.create_topic(zk, "t", {0: [1]})
    zk.create(paths.partition_state("t", 0), b"{}", ephemeral=True, parents=True)
    zk.create(paths.CONTROLLER_EPOCH, b"1")
    topics.mark_for_deletion(zk, "t")
    topics.mark_for_deletion(zk, "t")
    assert topics.topics_to_delete(zk) == ["t"]
    topics.remove_topic(zk, "t", 0)
    topics.remove_topic(zk, "t", 0)
    assert topics.list_topics(zk) == []
    assert topics.topics_to_delete(zk) == []
    assert zk.exists(paths.topic_config("t")) is None
    with pytest.raises(NoNode):
        topics.mark_for_deletion(zk, "t")


def test_topics_watch_misses_no_change_during_lost_session(zk: ZkSession, chroot: str) -> None:
    views: list[TopicsView] = []
    watch = TopicsWatch(zk, views.append)
    watch.start()
    with ZkSession(chroot) as other:
        topics.create_topic(other, "before", {0: [1]})
        until(lambda: "before" in views[-1].assignments)
        expire(zk)
        topics.create_topic(other, "during", {0: [1]})
        topics.add_partitions(other, "before", {1: [1]})
        until(lambda: "during" in views[-1].assignments)
        until(lambda: len(views[-1].assignments["before"]) == 2)
        topics.set_topic_config(other, "during", {"b": "1"})
        until(lambda: views[-1].configs["during"] == {"b": "1"})
    watch.close()
