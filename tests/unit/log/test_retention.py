import os
import sys
import time

import pytest

from tests.support.logs import (
    TP,
    Clock,
    EagerRuntime,
    make_manager,
    message_set,
    read_all,
    started,
)
from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError, CorruptMessage, OffsetOutOfRange
from zkbroker.log import TopicPartition
from zkbroker.log.retention import SegmentSummary, TimeAndSize
from zkbroker.records import Codec, MessageSetBuilder

HOUR = 3_600_000
NOW = 1_700_000_000_000


def summaries(*newest, size=100):
    return [SegmentSummary(10 * at, size, ms) for at, ms in enumerate(newest)]


def test_segments_past_the_time_limit_go_from_the_old_end_only():
    policy = TimeAndSize(LogConfig(retention_ms=HOUR))
    old, young = NOW - 2 * HOUR, NOW - HOUR // 2
    assert policy.expired(summaries(old, old, young, old, young), NOW) == 2
    assert policy.expired(summaries(old, old), NOW) == 2
    # Exactly as old as allowed stays, as with genuine brokers.
    assert policy.expired(summaries(NOW - HOUR - 1, NOW - HOUR, young), NOW) == 1
    assert TimeAndSize(LogConfig(retention_ms=-1)).expired(summaries(0, 0), NOW) == 0


def test_segments_go_while_the_rest_is_at_least_the_size_limit():
    segments = summaries(NOW, NOW, NOW, NOW)
    for limit, count in ((400, 0), (399, 0), (300, 1), (250, 1), (200, 2), (0, 4), (-1, 0)):
        config = LogConfig(retention_ms=-1, retention_bytes=limit)
        assert TimeAndSize(config).expired(segments, NOW) == count


def test_old_segments_are_renamed_at_once_and_removed_after_the_delay(tmp_path):
    clock = Clock()
    with started(
        tmp_path, clock=clock, segment_bytes=1000, retention_ms=HOUR, file_delete_delay_ms=60_000
    ) as manager:
        log = manager.get_or_create(TP)
        for _ in range(10):
            log.append_as_leader(message_set(4, timestamp=clock.now), leader_epoch=0)
        clock.advance(HOUR // 2)
        log.append_as_leader(message_set(4, timestamp=clock.now), leader_epoch=0)
        files = len(list(log.path.glob("*.log")))
        held, first = (
            log.read(0, 500, end=log.log_end_offset),
            message_set(4, timestamp=clock.now - HOUR // 2),
        )
        clock.advance(HOUR // 2 + 1000)
        assert manager.upkeep.run_retention() == files - 1
        assert log.log_start_offset == log.segments[0].base_offset == 40
        with pytest.raises(OffsetOutOfRange):
            log.read(0, 500, end=log.log_end_offset)
        assert len(list(log.path.glob("*.log.deleted"))) == files - 1
        clock.advance(60_001)
        manager.upkeep.run_deletions()
        assert list(log.path.glob("*.deleted")) == []
        # The slice that was taken before still has its bytes.
        assert os.pread(held.slice.fd, len(first) - 16, 16) == first[16:]
        held.slice.close()
        assert [record.offset for record in read_all(log)] == [40, 41, 42, 43]


def test_a_log_whose_every_segment_is_old_goes_on_empty_at_its_end(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, retention_ms=HOUR) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(4, timestamp=clock.now), leader_epoch=0)
        clock.advance(2 * HOUR)
        assert manager.upkeep.run_retention() == 1
        assert (log.log_start_offset, log.log_end_offset) == (4, 4)
        assert (
            log.append_as_leader(message_set(1, timestamp=clock.now), leader_epoch=0).base_offset
            == 4
        )
    with started(tmp_path, clock=clock) as manager:
        log = manager.get(TP)
        assert (log.log_start_offset, log.log_end_offset) == (4, 5)


def test_nothing_is_deleted_before_the_topic_s_own_settings_are_known(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock) as manager:
        manager.get_or_create(TP).append_as_leader(
            message_set(4, timestamp=clock.now), leader_epoch=0
        )
    clock.advance(10 * HOUR)
    with started(tmp_path, clock=clock, retention_ms=HOUR) as manager:
        # The broker's default would delete what the topic wants to keep.
        assert manager.upkeep.run_retention() == 0
        manager.update_topic_config(TP.topic, {"retention.ms": "-1"})
        assert manager.upkeep.run_retention() == 0
        manager.update_topic_config(TP.topic, {})
        assert manager.upkeep.run_retention() == 1


def test_the_age_of_messages_without_timestamps_is_their_file_s(tmp_path):
    clock = Clock(time.time_ns() // 1_000_000)
    with started(tmp_path, clock=clock, retention_ms=HOUR) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(4, magic=0), leader_epoch=0)
        assert manager.upkeep.run_retention() == 0
        clock.advance(2 * HOUR)
        assert manager.upkeep.run_retention() == 1


def test_a_compacted_topic_keeps_its_segments(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, retention_ms=1, cleanup_policy="compact") as manager:
        manager.get_or_create(TP).append_as_leader(message_set(4, timestamp=1), leader_epoch=0)
        assert manager.upkeep.run_retention() == 0


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_compacted_topic_takes_no_message_without_a_key(tmp_path, magic, codec):
    with started(tmp_path, cleanup_policy="compact,delete") as manager:
        log = manager.get_or_create(TP)
        for keys, taken in (((b"a", b""), True), ((b"a", None), False)):
            built = MessageSetBuilder(magic, codec)
            for key in keys:
                built.append(key, None, NOW)
            if taken:
                assert log.append_as_leader(built.build(), leader_epoch=0).base_offset == 0
            else:
                with pytest.raises(CorruptMessage, match="without a key"):
                    log.append_as_leader(built.build(), leader_epoch=0)
        assert log.log_end_offset == 2
        internal = manager.get_or_create(TopicPartition("__consumer_offsets", 0))
        assert internal.append_as_leader(message_set(1), leader_epoch=0).base_offset == 0


def test_what_was_deleted_is_not_held_open(tmp_path):
    def held():
        # The descriptor that lists the others is gone when it is looked at.
        names = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        return [name for name in names if f"{tmp_path}/" in name and name.endswith("(deleted)")]

    # A flush in another thread would hold what it flushes.
    settings = {"segment_bytes": 1000, "file_delete_delay_ms": 0, "runtime": EagerRuntime()}
    with started(tmp_path, **settings) as manager:
        log = manager.get_or_create(TP)
        for _ in range(10):
            log.append_as_leader(message_set(4), leader_epoch=0)
        assert len(read_all(log)) == 40  # opens every segment
        log.advance_start_to(log.log_end_offset)
        manager.upkeep.run_deletions()
        assert held() == []


def test_deleted_records_stay_deleted_after_a_crash(tmp_path):
    manager = make_manager(tmp_path, segment_bytes=1000)
    manager.start()
    log = manager.get_or_create(TP)
    for _ in range(10):
        log.append_as_leader(message_set(4), leader_epoch=0)
    assert log.advance_start_to(26) == 26
    assert log.segments[0].base_offset == 24
    with pytest.raises(OffsetOutOfRange):
        log.advance_start_to(41)
    assert log.advance_start_to(3) == 26
    manager.abandon()
    with started(tmp_path) as manager:
        log = manager.get(TP)
        assert log.log_start_offset == 26
        assert [record.offset for record in read_all(log)] == list(range(26, 40))
        assert log.advance_start_to(log.log_end_offset) == 40


@pytest.fixture
def installed_examples(tmp_path, monkeypatch):
    """The example policies, registered as a package that is installed would."""
    info = tmp_path / "site" / "examples_of_policies-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: examples-of-policies\nVersion: 1\n"
    )
    (info / "entry_points.txt").write_text(
        "[zkbroker.retention_policies]\n"
        "free-space = examples.retention_policies:free_space\n"
        "whole-days = examples.retention_policies:whole_days\n"
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])


@pytest.mark.usefixtures("installed_examples")
def test_a_policy_of_an_installed_package_is_found_by_its_name(tmp_path):
    clock = Clock()
    with started(
        tmp_path / "data",
        clock=clock,
        segment_bytes=1000,
        retention_ms=24 * HOUR,
        retention_policy="whole-days",
    ) as manager:
        log = manager.get_or_create(TP)
        midnight = clock.now - clock.now % (24 * HOUR)
        for hour in range(0, 48, 4):
            log.append_as_leader(message_set(6, timestamp=midnight + hour * HOUR), leader_epoch=0)
        clock.now = midnight + 47 * HOUR
        assert manager.upkeep.run_retention() == 0
        clock.now = midnight + 49 * HOUR
        assert manager.upkeep.run_retention() == 6
        assert log.log_start_offset == 36


@pytest.mark.parametrize("failure", [KeyError("x"), OSError(13, "no permission")])
def test_a_policy_that_fails_stops_neither_the_other_topics_nor_the_disk(
    tmp_path, monkeypatch, caplog, failure
):
    def expired(self, segments, now_ms):
        if self._config.retention_bytes == 7:
            raise failure
        return ask(self, segments, now_ms)

    ask = TimeAndSize.expired
    monkeypatch.setattr(TimeAndSize, "expired", expired)
    clock = Clock()
    with started(tmp_path, clock=clock, retention_ms=HOUR) as manager:
        for name in ("a", "b", "c"):
            overrides = {"retention.bytes": "7"} if name == "b" else {}
            log = manager.get_or_create(TopicPartition(name, 0), overrides)
            log.append_as_leader(message_set(4, timestamp=clock.now), leader_epoch=0)
        clock.advance(2 * HOUR)
        assert manager.upkeep.run_retention() == 2
        assert manager.offline_dirs() == {}
        assert manager.get(TopicPartition("b", 0)).log_start_offset == 0
    assert "retention failed partition=b-0" in caplog.text


@pytest.mark.usefixtures("installed_examples")
def test_an_unknown_policy_is_refused_with_the_known_names(tmp_path):
    with pytest.raises(ConfigError, match=r"free-space.*time-and-size.*whole-days"):
        make_manager(tmp_path, retention_policy="nonsense").start()
    with started(tmp_path) as manager, pytest.raises(ConfigError, match="percentage"):
        manager.update_topic_config("t", {"retention.policy": "free-space:200"})


def test_the_free_space_policy_lets_the_oldest_go_until_there_is_room(tmp_path):
    from examples.retention_policies import FreeSpace

    config = LogConfig(retention_ms=-1)
    policy = FreeSpace(config, tmp_path, 20, usage=lambda _: (1000, 950, 50))
    assert policy.expired(summaries(1, 2, 3, 4), NOW) == 2
    assert FreeSpace(config, tmp_path, 90, lambda _: (10**6, 0, 0)).expired(summaries(1, 2), 3) == 1
