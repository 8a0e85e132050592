"""A whole mirror: start, failures, commits and followed topics."""

from types import SimpleNamespace

import pytest

from tests.support.process import wait_until
from tests.unit.mirror.test_config import make
from tests.unit.mirror.test_tracker import chunk, partition
from zkbroker.errors import ClientError, ConfigError, NetworkError
from zkbroker.mirror import Mirror

ROOM = "zkbroker.mirror.mirror"


class Target:
    magic = 2

    def __init__(self, config, runtime):
        self.settings = config.producer(idempotent=False)
        self.sent = []
        self.syncs_error = None
        self.closed_after = None
        self.producer = self

    def identity(self):
        return "here"

    def send(self, message):
        self.sent.append(message)

    def have(self, topic):
        if self.syncs_error is not None:
            raise self.syncs_error
        return 1

    def close(self, timeout_s):
        self.closed_after = timeout_s


class SourceCluster:
    """A source with an identity."""

    def __init__(self, name):
        self.name = name
        self.closed = False

    def identity(self):
        return self.name

    def repack(self, chunk, begin, **options):
        return ()

    def close(self):
        self.closed = True


class Member:
    """A member of a source's group that returns one chunk without records."""

    def __init__(self, *args, on_release, on_lost, listener, runtime):
        self.committed = {}
        self.error = None
        self._chunks = [chunk(partition(), 0, 5, size=0)]
        self._woken = runtime.event()

    def poll(self, timeout_s, max_bytes):
        if self.error is not None:
            raise self.error
        if self._chunks:
            return [self._chunks.pop()]
        self._woken.wait(0.01)
        return ()

    def wake(self):
        self._woken.set()

    def commit(self, positions):
        self.committed.update(positions)

    def positions(self):
        return dict(self.committed)

    def lag(self):
        return {("t", 0): 3, ("mirror-offset-syncs", 0): 9}

    def close(self, timeout_s):
        pass


class Routes:
    def __init__(self, *args):
        self.followed = 0
        self.closed = False

    def skips(self, topic):
        return topic == "mirror-offset-syncs"

    def find(self, topic, partition):
        return SimpleNamespace(topic=topic, partitions=2, identity=True)

    def chooser(self, route, partition):
        return lambda key, value: partition

    def follow(self):
        self.followed += 1

    def close(self):
        self.closed = True


@pytest.fixture(autouse=True)
def clusters(monkeypatch):
    clusters = {"east": SourceCluster("east"), "west": SourceCluster("west")}

    def open_source(config, runtime):
        clusters[config.name].config = config
        return clusters[config.name]

    monkeypatch.setattr(f"{ROOM}.open_target", Target)
    monkeypatch.setattr(f"{ROOM}.Routes", Routes)
    monkeypatch.setattr(f"{ROOM}.CoordinatorSource", Member)
    monkeypatch.setattr(f"{ROOM}.ZooKeeperGroupSource", Member)
    monkeypatch.setattr(f"{ROOM}.open_source", open_source)
    monkeypatch.setattr(f"{ROOM}._START_AGAIN_S", 0.001)
    monkeypatch.setattr(f"{ROOM}._TICK_S", 0.01)
    return clusters


def members(mirror):
    return [worker.source for side in mirror._sides for worker in side.workers]


def test_every_source_has_streams_and_final_commit(clusters):
    with Mirror(make(num_streams="2")) as mirror:
        all_members = members(mirror)
        assert len(all_members) == 4
        assert wait_until(lambda: not any(each._chunks for each in all_members), interval_s=0.005)
        # the mirror's own topic has no lag
        assert [(each.source, each.topic, each.lag) for each in mirror.status()] == [
            ("east", "t", 6),
            ("west", "t", 6),
        ]
        # a topic of both sources has the lag of both
        (lag,) = [each for each in mirror.measures() if each.bean == "ConsumerLag"]
        assert dict(lag.samples)["t", "0"] == 6
        assert mirror.wait(0) is False
    assert [each.committed for each in all_members] == [{("t", 0): 5}] * 4
    assert mirror.wait(0) is True
    assert all(each.closed for each in clusters.values())
    assert mirror._target.closed_after > 0


def test_failed_stream_ends_mirror_without_commit(clusters):
    mirror = Mirror(make())
    first, second = members(mirror)
    assert wait_until(lambda: not second._chunks, interval_s=0.005)
    first.error = ConfigError("cannot be")
    with pytest.raises(ConfigError, match="cannot be"):
        mirror.wait(60)
    mirror.close()
    assert isinstance(mirror.failed, ConfigError)
    assert (first.committed, second.committed) == ({}, {})
    assert mirror._target.closed_after == 0


@pytest.mark.parametrize(
    ("identity", "prefix", "refused"),
    [("here", "", True), ("here", "{source}.", False), (None, "", False), ("x", "", False)],
)
def test_cluster_is_mirrored_into_itself_only_with_prefix(clusters, identity, prefix, refused):
    clusters["west"].name = identity
    config = make(topic_prefix=prefix) if prefix else make()
    if refused:
        with pytest.raises(ConfigError, match="west is the target itself"):
            Mirror(config)
        assert all(each.closed for each in clusters.values())
    else:
        Mirror(config).close()


def test_start_retries_passing_errors(monkeypatch):
    errors = [NetworkError("away"), OSError("away")]

    class Late(Target):
        def __init__(self, config, runtime):
            if errors:
                raise errors.pop()
            super().__init__(config, runtime)

    monkeypatch.setattr(f"{ROOM}.open_target", Late)
    Mirror(make(start_timeout_ms="60000")).close()
    assert errors == []
    errors[:] = [NetworkError("away")]
    with pytest.raises(NetworkError):
        Mirror(make(start_timeout_ms="0"))
    errors[:] = [ConfigError("cannot be"), ConfigError("cannot be")]
    with pytest.raises(ConfigError):
        Mirror(make(start_timeout_ms="60000"))
    assert len(errors) == 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"identity_partitions": "true"}, True),
        ({"identity_partitions": "true", "follow_topic_settings": "false"}, False),
        ({}, False),
    ],
)
def test_topic_settings_are_followed_with_identity_partitions(settings, expected):
    with Mirror(make(topics_interval_ms="100", **settings)) as mirror:
        side = mirror._sides[0]
        if expected:
            assert wait_until(lambda: side.routes.followed > 1, interval_s=0.005)
        else:
            mirror.wait(0.3)
    assert (side.routes.followed > 0) is expected


def test_offset_syncs_need_identity_and_their_errors_are_ignored():
    found = [(("t", 0), 7, SimpleNamespace(topic="t", partition=0, offset=70))]
    with Mirror(make(identity_partitions="true")) as mirror:
        mirror._write_syncs("east", found)
        assert [each.topic for each in mirror._target.sent] == ["mirror-offset-syncs"]
        mirror._target.syncs_error = ClientError("away")
        mirror._write_syncs("east", found)
        assert len(mirror._target.sent) == 1
    with Mirror(make()) as mirror:
        mirror._write_syncs("east", found)
        assert mirror._target.sent == []
