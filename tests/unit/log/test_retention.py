import os
import sys
import time

import pytest

from tests.support.logs import (
    TP,
    Clock,
    EagerRuntime,
    WaitedForLock,
    append,
    make_manager,
    message_set,
    open_paths,
    read_all,
    reopened_log,
    start_log,
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


def test_time_retention_deletes_from_oldest_segment():
    policy = TimeAndSize(LogConfig(retention_ms=HOUR))
    old, young = NOW - 2 * HOUR, NOW - HOUR // 2
    assert policy.expired(summaries(old, old, young, old, young), NOW) == 2
    assert policy.expired(summaries(old, old), NOW) == 2
    # Exactly as old as allowed stays, as with genuine brokers.
    assert policy.expired(summaries(NOW - HOUR - 1, NOW - HOUR, young), NOW) == 1
    assert TimeAndSize(LogConfig(retention_ms=-1)).expired(summaries(0, 0), NOW) == 0


def test_size_retention_keeps_at_least_the_limit():
    segments = summaries(NOW, NOW, NOW, NOW)
    for limit, count in ((400, 0), (399, 0), (300, 1), (250, 1), (200, 2), (0, 4), (-1, 0)):
        config = LogConfig(retention_ms=-1, retention_bytes=limit)
        assert TimeAndSize(config).expired(segments, NOW) == count


def test_messages_that_replace_expired_ones_while_retention_waits_stay(tmp_path):
    def replace():
        log.truncate_fully_and_start_at(2)
        append(log, 4, timestamp=clock.now, times=10)

    clock = Clock()
    with started(tmp_path, clock=clock, segment_bytes=1000, retention_ms=HOUR) as manager:
        log = manager.get_or_create(TP)
        append(log, 4, timestamp=clock.now, times=10)
        clock.advance(2 * HOUR)
        log.files_lock = WaitedForLock(log.files_lock, replace)
        assert manager.upkeep.run_retention() == 0
        assert (log.log_start_offset, log.log_end_offset) == (2, 42)


def test_expired_segments_are_renamed_then_removed_after_delay(tmp_path):
    clock = Clock()
    with started(
        tmp_path, clock=clock, segment_bytes=1000, retention_ms=HOUR, file_delete_delay_ms=60_000
    ) as manager:
        log = manager.get_or_create(TP)
        append(log, 4, timestamp=clock.now, times=10)
        clock.advance(HOUR // 2)
        append(log, 4, timestamp=clock.now)
        files = len(list(log.path.glob("*.log")))
        held = log.read(0, 500, end=log.log_end_offset)
        first = message_set(4, timestamp=clock.now - HOUR // 2)
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


def test_log_with_only_expired_segments_continues_empty(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, retention_ms=HOUR) as manager:
        log = manager.get_or_create(TP)
        append(log, 4, timestamp=clock.now)
        clock.advance(2 * HOUR)
        assert manager.upkeep.run_retention() == 1
        assert (log.log_start_offset, log.log_end_offset) == (4, 4)
        assert append(log, 1, timestamp=clock.now).base_offset == 4
    with reopened_log(tmp_path, clock=clock) as log:
        assert (log.log_start_offset, log.log_end_offset) == (4, 5)


def test_retention_waits_for_topic_settings(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock) as manager:
        append(manager.get_or_create(TP), 4, timestamp=clock.now)
    clock.advance(10 * HOUR)
    with started(tmp_path, clock=clock, retention_ms=HOUR) as manager:
        # The broker's default would delete messages that the topic keeps.
        assert manager.upkeep.run_retention() == 0
        manager.update_topic_config(TP.topic, {"retention.ms": "-1"})
        assert manager.upkeep.run_retention() == 0
        manager.update_topic_config(TP.topic, {})
        assert manager.upkeep.run_retention() == 1


def test_retention_without_timestamps_uses_file_time(tmp_path):
    clock = Clock(time.time_ns() // 1_000_000)
    with started(tmp_path, clock=clock, retention_ms=HOUR) as manager:
        log = manager.get_or_create(TP)
        append(log, 4, magic=0)
        assert manager.upkeep.run_retention() == 0
        clock.advance(2 * HOUR)
        assert manager.upkeep.run_retention() == 1


def test_retention_keeps_compacted_segments(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, retention_ms=1, cleanup_policy="compact") as manager:
        append(manager.get_or_create(TP), 4, timestamp=1)
        assert manager.upkeep.run_retention() == 0


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_compacted_topic_refuses_message_without_key(tmp_path, magic, codec):
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
        assert append(internal, 1).base_offset == 0


def test_deleted_segments_are_closed(tmp_path):
    # A flush in another thread would hold the files that it flushes.
    settings = {"segment_bytes": 1000, "file_delete_delay_ms": 0, "runtime": EagerRuntime()}
    with started(tmp_path, **settings) as manager:
        log = manager.get_or_create(TP)
        append(log, 4, times=10)
        assert len(read_all(log)) == 40  # opens every segment
        log.advance_start_to(log.log_end_offset)
        manager.upkeep.run_deletions()
        deleted = [path for path in open_paths() if path.endswith("(deleted)")]
        assert not [path for path in deleted if path.startswith(f"{tmp_path}/")]


def test_deleted_records_stay_deleted_after_crash(tmp_path):
    manager, log = start_log(tmp_path, segment_bytes=1000)
    append(log, 4, times=10)
    assert log.advance_start_to(26) == 26
    assert log.segments[0].base_offset == 24
    with pytest.raises(OffsetOutOfRange):
        log.advance_start_to(41)
    assert log.advance_start_to(3) == 26
    manager.abandon()
    with reopened_log(tmp_path) as log:
        assert log.log_start_offset == 26
        assert [record.offset for record in read_all(log)] == list(range(26, 40))
        assert log.advance_start_to(log.log_end_offset) == 40


@pytest.fixture
def installed_examples(tmp_path, monkeypatch):
    """The example policies, registered like those of an installed package."""
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
def test_installed_retention_policy_is_found_by_name(tmp_path):
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
            append(log, 6, timestamp=midnight + hour * HOUR)
        clock.now = midnight + 47 * HOUR
        assert manager.upkeep.run_retention() == 0
        clock.now = midnight + 49 * HOUR
        assert manager.upkeep.run_retention() == 6
        assert log.log_start_offset == 36


@pytest.mark.parametrize("failure", [KeyError("x"), OSError(13, "no permission")])
def test_failing_retention_policy_affects_only_its_topic(tmp_path, monkeypatch, caplog, failure):
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
            append(log, 4, timestamp=clock.now)
        clock.advance(2 * HOUR)
        assert manager.upkeep.run_retention() == 2
        assert manager.offline_dirs() == {}
        assert manager.get(TopicPartition("b", 0)).log_start_offset == 0
    assert "retention failed partition=b-0" in caplog.text


@pytest.mark.usefixtures("installed_examples")
def test_unknown_retention_policy_error_lists_known_names(tmp_path):
    with pytest.raises(ConfigError, match=r"free-space.*time-and-size.*whole-days"):
        make_manager(tmp_path, retention_policy="nonsense").start()
    with started(tmp_path) as manager, pytest.raises(ConfigError, match="percentage"):
        manager.update_topic_config("t", {"retention.policy": "free-space:200"})


def test_free_space_policy_deletes_oldest_segments(tmp_path):
    from examples.retention_policies import FreeSpace

    config = LogConfig(retention_ms=-1)
    policy = FreeSpace(config, tmp_path, 20, usage=lambda _: (1000, 950, 50))
    assert policy.expired(summaries(1, 2, 3, 4), NOW) == 2
    assert FreeSpace(config, tmp_path, 90, lambda _: (10**6, 0, 0)).expired(summaries(1, 2), 3) == 1
