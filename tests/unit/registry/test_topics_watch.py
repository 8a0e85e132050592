"""The view of all topics: only what changed is read again."""

import pytest

from tests.support.instant_session import InstantSession
from tests.support.zookeeper import until
from zkbroker.registry import paths, topics
from zkbroker.registry.topics_watch import TopicsWatch


@pytest.fixture
def session():
    made = InstantSession()
    for name in ("a", "b", "c"):
        topics.create_topic(made, name, {0: [1]}, {"retention.ms": "1"})
    return made


@pytest.fixture
def views(session):
    seen = []
    watch = TopicsWatch(session, seen.append)
    watch.start()
    yield seen
    watch.close()


def test_topics_and_their_settings_are_seen(session, views):
    assert {name: dict(each) for name, each in views[0].assignments.items()} == {
        name: {0: (1,)} for name in ("a", "b", "c")
    }
    assert views[0].configs["a"] == {"retention.ms": "1"}
    assert views[0].deleting == frozenset()


def test_only_the_topic_that_changed_is_read_again(session, views):
    session.asked.clear()
    topics.add_partitions(session, "b", {1: [2]})
    until(lambda: len(views) > 1)
    assert views[-1].assignments["b"] == {0: (1,), 1: (2,)}
    read = [path for path in session.asked if path.startswith((paths.topic(""), "/config/topics"))]
    assert {path.rpartition("/")[2] for path in read} == {"b"}


def test_settings_are_read_again_when_a_notification_names_the_topic(session, views):
    session.asked.clear()
    topics.set_topic_config(session, "c", {"retention.ms": "2"})
    until(lambda: len(views) > 1)
    assert views[-1].configs["c"] == {"retention.ms": "2"}
    assert paths.topic_config("a") not in session.asked


def test_topics_come_are_marked_and_go(session, views):
    topics.create_topic(session, "d", {0: [3]})
    until(lambda: "d" in views[-1].assignments)
    topics.mark_for_deletion(session, "d")
    until(lambda: "d" in views[-1].deleting)
    session.create(paths.CONTROLLER_EPOCH, b"1")
    topics.remove_topic(session, "d", 0)
    until(lambda: "d" not in views[-1].assignments and not views[-1].deleting)
    assert "d" not in views[-1].configs


def test_a_topic_without_a_readable_assignment_is_left_out_until_it_is_filled(session, views):
    session.create(paths.topic("late"), b"")
    topics.create_topic(session, "e", {0: [1]})
    until(lambda: "e" in views[-1].assignments)
    assert "late" not in views[-1].assignments
    session.set(paths.topic("late"), topics.encode_assignment({0: [1]}))
    until(lambda: "late" in views[-1].assignments)


def test_nothing_is_read_during_an_outage_and_what_changed_in_it_is_seen_after(session, views):
    other = InstantSession(session.server)
    session.suspend()
    session.asked.clear()
    topics.create_topic(other, "new", {0: [1]})
    topics.add_partitions(other, "a", {1: [1]})
    other.runtime.sleep(0.05)
    assert session.asked == []
    session.reconnect()
    until(lambda: "new" in views[-1].assignments and len(views[-1].assignments["a"]) == 2)


def test_old_notifications_are_purged_by_a_broker_that_saw_them_new(session, views, monkeypatch):
    # Nodes of this session were created at 0 ms.
    monkeypatch.setattr(type(session.runtime), "now_ms", lambda self: now_ms)
    now_ms = 1000
    topics.set_topic_config(session, "a", {"retention.ms": "2"})
    until(lambda: views[-1].configs["a"] == {"retention.ms": "2"})
    assert session.children(paths.CONFIG_CHANGES)
    now_ms = 16 * 60_000
    topics.set_topic_config(session, "b", {"retention.ms": "2"})
    until(lambda: not session.children(paths.CONFIG_CHANGES))
