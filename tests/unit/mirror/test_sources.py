"""Members of both kinds of groups, and their topic filters."""

from types import SimpleNamespace

import pytest

from tests.unit.mirror.test_config import GIVEN, make
from zkbroker.errors import ClientError
from zkbroker.mirror import MirrorConfig
from zkbroker.mirror.sources import (
    CoordinatorSource,
    ZooKeeperGroupSource,
    topic_filter,
    topic_pattern,
)
from zkbroker.runtime import get_runtime

RUNTIME = get_runtime("threads")
KEYS = [("t", 0), ("t", 1)]


class RecordingListener:
    """Records the calls of all listener methods."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, *args))


class Group:
    """The consumer of a coordinator's group."""

    error = None
    poll_chunks = wakeup = commit = positions = processed = lag = None

    def __init__(self, config, *, runtime):
        self.config = config
        self.closed = False
        Group.last = self

    def subscribe(self, pattern, listener):
        if self.error is not None:
            raise self.error
        self.pattern, self.listener = pattern, listener

    def close(self, timeout_s=None):
        self.closed = True


class Connector:
    """The consumer of a group in ZooKeeper."""

    error = None
    commit_offsets = positions = processed = lag = None

    def __init__(self, config):
        self.config = config
        self.listeners = []
        self.chunks = ["chunk"]
        self.down = False
        Connector.last = self

    @classmethod
    def create(cls, config, *, runtime):
        return cls(config)

    def add_rebalance_listener(self, listener):
        self.listeners.append(listener)

    def create_message_streams_by_filter(self, chosen):
        if self.error is not None:
            raise self.error
        self.chosen = chosen
        return [SimpleNamespace(take_chunk=lambda timeout_s: next(iter(self.chunks), None))]

    def shutdown(self, timeout_s=None):
        self.down = True


@pytest.fixture(autouse=True)
def consumers(monkeypatch):
    monkeypatch.setattr("zkbroker.mirror.sources.GroupConsumer", Group)
    monkeypatch.setattr("zkbroker.mirror.sources.Consumer", Connector)


def member(kind, recorder, listener=None):
    config = make()
    source = config.sources[1 if kind is CoordinatorSource else 0]
    return kind(
        config,
        source,
        0,
        on_release=recorder.release,
        on_lost=recorder.lost,
        listener=listener,
        runtime=RUNTIME,
    )


def test_coordinator_source_calls_mirror_before_user_listener():
    recorder = RecordingListener()
    member(CoordinatorSource, recorder, listener=recorder)
    listener = Group.last.listener
    listener.on_partitions_assigned(KEYS)
    listener.on_partitions_revoked(KEYS)
    listener.on_partitions_lost(KEYS)
    assert recorder.calls == [
        ("on_partitions_assigned", KEYS),
        ("release", KEYS),
        ("on_partitions_revoked", KEYS),
        ("lost", KEYS),
        ("on_partitions_lost", KEYS),
    ]
    assert not Group.last.config.enable_auto_commit


def test_zookeeper_source_calls_mirror_before_user_listener():
    recorder = RecordingListener()
    member(ZooKeeperGroupSource, recorder, listener=recorder)
    for listener in Connector.last.listeners:
        listener.before_releasing_partitions(dict.fromkeys(KEYS))
    assert recorder.calls == [
        ("release", KEYS),
        ("before_releasing_partitions", dict.fromkeys(KEYS)),
    ]
    assert not Connector.last.config.auto_commit_enable


def test_partitions_that_went_with_the_session_are_lost_before_the_next_start():
    recorder = RecordingListener()
    member(ZooKeeperGroupSource, recorder)
    (listener,) = Connector.last.listeners
    listener.before_starting_fetchers("me", dict.fromkeys(KEYS))
    # the session is lost: nothing is released
    listener.before_starting_fetchers("me", dict.fromkeys(KEYS[:1]))
    listener.before_releasing_partitions(dict.fromkeys(KEYS[:1]))
    listener.before_starting_fetchers("me", dict.fromkeys(KEYS))
    assert recorder.calls == [("lost", KEYS), ("release", KEYS[:1])]


def test_poll_without_room_takes_no_chunk():
    source = member(ZooKeeperGroupSource, RecordingListener())
    source.wake()
    assert source.poll(30, 0) == ()
    assert source.poll(0, 1) == ("chunk",)
    Connector.last.chunks = []
    assert source.poll(0, 1) == ()


@pytest.mark.parametrize("kind", [CoordinatorSource, ZooKeeperGroupSource])
def test_failed_start_closes_consumer(kind, monkeypatch):
    for consumer in (Group, Connector):
        monkeypatch.setattr(consumer, "error", ClientError("no"))
    with pytest.raises(ClientError):
        member(kind, RecordingListener())
    assert Group.last.closed if kind is CoordinatorSource else Connector.last.down


@pytest.mark.parametrize(
    ("key", "value", "matching", "others"),
    [
        ("whitelist", "orders|visits", ["orders", "visits"], ["orders2", "my-orders"]),
        ("whitelist", "orders,visits", ["orders", "visits"], ["orders,visits"]),
        ("blacklist", "orders|visits", ["orders2", "my-visits"], ["orders", "visits"]),
        ("blacklist", "test.*", ["attest"], ["test", "tests"]),
    ],
)
def test_both_group_kinds_select_same_topics(key, value, matching, others):
    given = {name: text for name, text in GIVEN.items() if name != "whitelist"}
    config = MirrorConfig.from_properties(given | {key: value})
    pattern, chosen = topic_pattern(config), topic_filter(config)
    for topic in (*matching, *others):
        expected = topic in matching
        assert bool(pattern.match(topic)) is expected, topic
        assert chosen.matches(topic) is expected, topic
