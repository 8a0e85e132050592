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


def test_topics_watch_follows_settings_and_deletions(zk: ZkSession, chroot: str) -> None:
    views: list[TopicsView] = []
    watch = TopicsWatch(zk, views.append)
    watch.start()
    assert views[0].assignments == {}
    with ZkSession(chroot) as other:
        topics.create_topic(other, "t", {0: [1]}, {"a": "1"})
        until(lambda: views[-1].configs == {"t": {"a": "1"}})
        topics.add_partitions(other, "t", {1: [1]})
        until(lambda: len(views[-1].assignments["t"]) == 2)
        topics.set_topic_config(other, "t", {"a": "2"})
        until(lambda: views[-1].configs["t"] == {"a": "2"})
        # As the 0.8 tool does: the bare node, and a notification of its generation.
        other.create(paths.topic("direct"), b'{"version":1,"partitions":{"0":[7]}}')
        until(lambda: views[-1].assignments.get("direct") == {0: (7,)})
        for value, note in (
            ("3", b'"direct"'),
            ("4", b'{"version":1,"entity_type":"topics","entity_name":"direct"}'),
        ):
            other.ensure_path(paths.topic_config("direct"))
            other.set(paths.topic_config("direct"), topics.encode_config({"a": value}))
            other.create(paths.CONFIG_CHANGE_PREFIX, note, sequential=True)
            until(lambda value=value: views[-1].configs["direct"] == {"a": value})
        other.create(paths.topic("late"))
        other.set(paths.topic("late"), topics.encode_assignment({0: [1]}))
        until(lambda: "late" in views[-1].assignments)
        topics.mark_for_deletion(other, "t")
        until(lambda: views[-1].deleting == {"t"})
        other.create(paths.CONTROLLER_EPOCH, b"1")
        topics.remove_topic(other, "t", 0)
        until(lambda: views[-1].assignments.keys() == {"direct", "late"})
        until(lambda: not views[-1].deleting)
    watch.close()


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
