"""The watch of all topics reads only those that changed."""

import threading

import pytest

from tests.support.zookeeper import until
from zkbroker.registry import paths, topics
from zkbroker.registry.topics_watch import TopicsReader, TopicsWatch


@pytest.fixture
def session(session):
    for name in ("a", "b", "c"):
        topics.create_topic(session, name, {0: [1]}, {"retention.ms": "1"})
    return session


@pytest.fixture
def views(session):
    seen = []
    watch = TopicsWatch(session, seen.append)
    watch.start()
    yield seen
    watch.close()


def test_topics_and_settings_are_read(session, views):
    assert {name: dict(each) for name, each in views[0].assignments.items()} == {
        name: {0: (1,)} for name in ("a", "b", "c")
    }
    assert views[0].configs["a"] == {"retention.ms": "1"}
    assert views[0].deleting == frozenset()


def test_only_changed_topic_is_read(session, views):
    session.asked.clear()
    topics.add_partitions(session, "b", {1: [2]})
    until(lambda: len(views) > 1)
    assert views[-1].assignments["b"] == {0: (1,), 1: (2,)}
    read = [path for path in session.asked if path.startswith((paths.topic(""), "/config/topics"))]
    assert {path.rpartition("/")[2] for path in read} == {"b"}


def test_settings_are_read_after_notice(session, views):
    session.asked.clear()
    topics.set_topic_config(session, "c", {"retention.ms": "2"})
    until(lambda: len(views) > 1)
    assert views[-1].configs["c"] == {"retention.ms": "2"}
    assert paths.topic_config("a") not in session.asked


def test_created_and_deleted_topics_are_followed(session, views):
    topics.create_topic(session, "d", {0: [3]}, {"retention.ms": "3"})
    until(lambda: views[-1].configs.get("d") == {"retention.ms": "3"})
    assert views[-1].assignments["d"] == {0: (3,)}
    topics.mark_for_deletion(session, "d")
    until(lambda: "d" in views[-1].deleting)
    session.create(paths.CONTROLLER_EPOCH, b"1")
    topics.remove_topic(session, "d", 0)
    until(lambda: "d" not in views[-1].assignments and not views[-1].deleting)
    assert "d" not in views[-1].configs


def test_topic_that_is_replaced_during_a_reading_is_followed(session):
    """It is gone when its node is read, and there again when the topics are listed next."""
    changed = threading.Event()
    reader = TopicsReader(session, changed)
    reader.read()
    session.create(paths.CONTROLLER_EPOCH, b"1")
    topics.add_partitions(session, "b", {1: [1]})
    get_many, interrupted = session.get_many, []

    def replace_meanwhile(names, watches=None):
        if paths.topic("b") not in names or interrupted:
            return get_many(names, watches)
        interrupted.append(True)
        topics.remove_topic(session, "b", 0)
        found = get_many(names, watches)
        topics.create_topic(session, "b", {0: [2]}, {"retention.ms": "2"})
        return found

    session.get_many = replace_meanwhile
    assert "b" not in reader.read().assignments
    view = reader.read()
    assert (view.assignments["b"], view.configs["b"]) == ({0: (2,)}, {"retention.ms": "2"})
    changed.clear()
    topics.add_partitions(session, "b", {1: [2]})
    assert changed.is_set()
    assert len(reader.read().assignments["b"]) == 2


def test_topic_appears_once_its_assignment_is_readable(session, views):
    session.create(paths.topic("late"), b"")
    topics.create_topic(session, "e", {0: [1]})
    until(lambda: "e" in views[-1].assignments)
    assert "late" not in views[-1].assignments
    session.set(paths.topic("late"), topics.encode_assignment({0: [1]}))
    until(lambda: "late" in views[-1].assignments)


def test_changes_during_outage_are_read_after_it(session, other, views):
    session.suspend()
    session.asked.clear()
    topics.create_topic(other, "new", {0: [1]})
    topics.add_partitions(other, "a", {1: [1]})
    other.runtime.sleep(0.05)
    assert session.asked == []
    session.reconnect()
    until(lambda: "new" in views[-1].assignments and len(views[-1].assignments["a"]) == 2)


def test_old_notices_are_purged(session, views, monkeypatch):
    # Nodes of this session were created at 0 ms.
    monkeypatch.setattr(type(session.runtime), "now_ms", lambda self: now_ms)
    now_ms = 1000
    topics.set_topic_config(session, "a", {"retention.ms": "2"})
    until(lambda: views[-1].configs["a"] == {"retention.ms": "2"})
    assert session.children(paths.CONFIG_CHANGES)
    now_ms = 16 * 60_000
    topics.set_topic_config(session, "b", {"retention.ms": "2"})
    until(lambda: not session.children(paths.CONFIG_CHANGES))
