import gc
import os
import random
import weakref

import pytest

from tests.support.clocks import Clock
from tests.support.logs import (
    TP,
    EagerRuntime,
    HookedFileSystem,
    ScarceFileSystem,
    WaitedForLock,
    append_transactional,
    end_transaction,
    flip_bit,
    make_manager,
    read_all,
)
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log import TopicPartition
from zkbroker.log.cleaner import CleaningAborted, OffsetMap, clean, cleanable_part, cleaner, dry_run
from zkbroker.log.cleaner.cleaning import PassSettings
from zkbroker.log.cleaner.throttle import Throttle
from zkbroker.log.replacing import replace_segments
from zkbroker.records import (
    Codec,
    encode_message_set,
    iter_entries,
    iter_records,
    kernels,
    portable,
)
from zkbroker.records.messages import wrap_message_set
from zkbroker.records.payload import unwrap

SETTINGS = PassSettings(1 << 20, 0.9, 1 << 16)
COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


class CleanableLog:
    """A compacted log of small segments, with its manager and clock."""

    def __init__(self, path, overrides=COMPACT, **settings):
        self.clock = Clock()
        self.manager = make_manager(
            path,
            clock=self.clock,
            runtime=EagerRuntime(),
            overrides={TP.topic: overrides},
            segment_bytes=1000,
            **settings,
        )
        self.manager.start()
        self.log = self.manager.get_or_create(TP)

    def send(self, key, value, **how):
        record = (key, value, self.clock(), ())
        self.log.append_as_leader(encode_message_set([record], **how), leader_epoch=0)

    def fill(self, count=60, keys=5):
        for number in range(count):
            self.send(b"k%d" % (number % keys), b"v%d" % number)
        self.log.roll()

    def part(self, mark=None):
        end = self.log.log_end_offset if mark is None else mark
        return cleanable_part(self.log, end, self.clock())

    def clean(self, part=None, settings=SETTINGS):
        return clean(part or self.part(), settings, keep=lambda: {TP})


@pytest.fixture
def opened(tmp_path):
    found = CleanableLog(tmp_path)
    found.fill()
    yield found
    found.manager.close()


def test_pass_keeps_latest_record_of_each_key_at_its_offset(opened):
    stats = opened.clean()
    assert [(r.offset, r.value) for r in read_all(opened.log)] == [
        (number, b"v%d" % number) for number in range(55, 60)
    ]
    assert (stats.start_offset, stats.end_offset, stats.keys) == (0, 60, 5)
    assert stats.copied.records_seen == 60
    assert stats.copied.records_kept == 5
    assert opened.log.log_start_offset == 0
    assert opened.log.directory.cleaned == {TP: 60}
    text = (opened.log.path.parent / "cleaner-offset-checkpoint").read_text()
    assert text == "0\n1\nmy-topic 0 60\n"


def test_dry_run_predicts_a_pass(opened):
    before = read_all(opened.log)
    planned = dry_run(opened.part(), SETTINGS)
    assert read_all(opened.log) == before
    done = opened.clean()
    assert planned.copied == done.copied
    assert (planned.bytes_after, planned.segments_after) == (done.bytes_after, done.segments_after)


def test_small_map_needs_several_passes(opened):
    small = PassSettings(24 * 4, 0.9, 1 << 16)
    ends = []
    while opened.part().dirty_bytes and opened.part().first_dirty < 60:
        ends.append(opened.clean(settings=small).end_offset)
    assert len(ends) > 5
    assert ends == sorted(set(ends))
    assert {r.key: r.value for r in read_all(opened.log)} == {
        b"k%d" % (n % 5): b"v%d" % n for n in range(55, 60)
    }


def test_second_pass_removes_tombstones(tmp_path):
    opened = CleanableLog(tmp_path, {**COMPACT, "delete.retention.ms": "0"})
    opened.fill(10)
    opened.send(b"k1", None)
    opened.log.roll()
    opened.clean()
    assert [r.key for r in read_all(opened.log) if r.value is None] == [b"k1"]
    opened.fill(1)
    opened.clean()
    assert [r.key for r in read_all(opened.log) if r.value is None] == []
    opened.manager.close()


def test_uncommitted_and_recent_segments_are_not_cleanable(opened):
    bases = [segment.base_offset for segment in opened.log.segments]
    assert opened.part(bases[2] + 1).end == bases[2]
    assert opened.part(0).dirty_bytes == 0
    opened.manager.update_topic_config(TP.topic, {**COMPACT, "min.compaction.lag.ms": "60000"})
    assert opened.part().end == 0
    opened.clock.advance(60_001)
    assert opened.part().end == 60


def test_impossible_cleaner_checkpoint_is_ignored(opened):
    for wrong in (61, -5):
        opened.log.directory.cleaned[TP] = wrong
        assert opened.part().first_dirty == 0


def test_truncation_lowers_checkpoint_and_aborts_pass(opened):
    opened.clean()
    opened.fill(20)
    part = opened.part()
    opened.log.truncate_to(57)
    assert opened.log.directory.cleaned == {TP: 57}
    assert "my-topic 0 57" in (opened.log.path.parent / "cleaner-offset-checkpoint").read_text()
    with pytest.raises(CleaningAborted):
        opened.clean(part)
    assert not list(opened.log.path.glob("*.cleaned"))
    with pytest.raises(ValueError, match="truncated"):
        replace_segments(opened.log, opened.log.segments[:1], [], truncations=0)


def test_deletion_aborts_pass_and_drops_checkpoint(opened):
    opened.clean()
    opened.fill(5)
    part = opened.part()
    opened.manager.delete(TP)
    with pytest.raises((CleaningAborted, StorageError)):
        opened.clean(part)
    opened.log = opened.manager.get_or_create(TP)
    assert opened.log.directory.cleaned == {}


def test_checkpoint_drops_deleted_partitions(opened):
    opened.log.directory.cleaned[TopicPartition("gone", 1)] = 5
    opened.clean()
    assert set(opened.log.directory.cleaned) == {TP}


def test_offset_gaps_are_valid_after_policy_change(tmp_path, opened):
    opened.clean()
    left = read_all(opened.log)
    opened.manager.abandon()
    with_delete = CleanableLog(tmp_path, {"cleanup.policy": "delete"})
    assert read_all(with_delete.log) == left
    with_delete.manager.close()
    opened.manager = with_delete.manager


def test_damaged_log_is_uncleanable_and_others_are_cleaned(opened):
    other = TopicPartition("other", 0)
    opened.manager.update_topic_config("other", COMPACT)
    log = opened.manager.get_or_create(other)
    for number in range(40):
        record = (b"k", b"v%d" % number, 1, ())
        log.append_as_leader(encode_message_set([record]), leader_epoch=0)
    log.roll()
    path = opened.log.segments[0].path(".log")
    flip_bit(path, -1)
    while opened.manager.cleaner.clean_one():
        pass
    assert set(opened.manager.cleaner.uncleanable()) == {TP}
    assert opened.manager.cleaner.uncleanable_bytes() > 0
    assert len(read_all(log)) == 1
    assert opened.manager.cleaner.metrics.passes == 1
    flip_bit(path, -1)


def test_deleted_uncleanable_log_is_forgotten(opened, monkeypatch):
    # A captured error would keep the log.
    monkeypatch.setattr(cleaner.logger, "disabled", True)
    flip_bit(opened.log.segments[0].path(".log"), -1)
    while opened.manager.cleaner.clean_one():
        pass
    assert opened.manager.cleaner.uncleanable()
    opened.manager.delete(TP)
    log = weakref.ref(opened.log)
    opened.log = None
    gc.collect()
    assert log() is None


@pytest.mark.parametrize("left", range(6))
def test_log_is_cleaned_once_there_are_file_descriptors_again(tmp_path, left):
    fs = ScarceFileSystem()
    scarce = CleanableLog(tmp_path / "scarce", fs=fs)
    scarce.fill()
    scarce.log.roll()
    fs.left = left
    assert scarce.manager.cleaner.clean_one() is None
    assert not scarce.manager.cleaner.uncleanable()
    fs.left = None
    scarce.clean()
    assert len(read_all(scarce.log)) == 5
    scarce.manager.close()


def test_log_is_cleaned_after_a_pass_of_which_segments_were_deleted(tmp_path):
    def delete_before_it_is_read(path, flags):
        if path == files[2]:
            fs.before.clear()
            found.log.advance_start_to(45)
            found.manager.upkeep.run_deletions(found.clock() + 10**9)

    fs = HookedFileSystem()
    found = CleanableLog(tmp_path, COMPACT | {"cleanup.policy": "compact,delete"}, fs=fs)
    found.fill()
    files = [each.path(".log") for each in found.log.segments]
    fs.before["open"] = delete_before_it_is_read
    found.manager.cleaner.clean_one()
    assert not files[2].exists()
    assert found.manager.cleaner.uncleanable() == {}
    found.manager.cleaner.clean_one()
    assert len(read_all(found.log)) == 5
    found.manager.close()


def test_log_below_dirty_ratio_is_not_cleaned(opened):
    opened.manager.update_topic_config(
        TP.topic, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}
    )
    cleaner = opened.manager.cleaner
    assert cleaner.clean_one() is not None
    assert cleaner.clean_one() is None
    opened.fill(1)
    assert cleaner.clean_one() is None
    assert 0 < cleaner.metrics.max_dirty_percent <= 50
    opened.fill(30)
    assert cleaner.clean_one() is not None


def test_cleaner_applies_retention_to_compacted_logs(opened):
    opened.manager.update_topic_config(
        TP.topic, {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    )
    opened.clock.advance(10_000)
    assert opened.manager.upkeep.run_retention() == 0
    assert opened.manager.cleaner.delete_old_segments() > 0
    assert opened.log.log_start_offset > 0


def test_retention_goes_on_with_a_log_that_was_emptied_while_it_waited(opened):
    log = opened.log
    log.advance_start_to(10)
    log.files_lock = WaitedForLock(log.files_lock, lambda: log.truncate_to(3))
    assert opened.manager.cleaner.delete_old_segments() == 0
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)


def test_cleaned_segment_keeps_time_of_its_last_source(opened):
    at = 1_600_000_000
    for number, segment in enumerate(opened.log.segments[:-1]):
        os.utime(segment.path(".log"), (at + number, at + number))
    last = at + len(opened.log.segments) - 2
    opened.clean()
    assert opened.log.segments[-2].path(".log").stat().st_mtime == last


def test_old_snapshot_does_not_reopen_transaction_without_marker(tmp_path):
    opened = CleanableLog(tmp_path, {**COMPACT, "delete.retention.ms": "0"})
    record = (b"k", b"of a transaction", opened.clock(), ())
    opened.send(b"k", b"first")
    append_transactional(opened.log, 0, record=record)
    opened.log.roll()
    end_transaction(opened.log, commit=False)
    for _ in range(2):
        opened.send(b"k", b"later")
        opened.log.roll()
    append_transactional(opened.log, 1, record=record)
    # The first pass removes the data, the second its marker.
    opened.clean(opened.part(4))
    opened.clean()
    assert [r.offset for r in read_all(opened.log)] == [4, 5]
    opened.manager.abandon()
    # A power cut may lose the newer snapshots and leave the one from before the marker.
    for path in opened.log.path.glob("*.snapshot"):
        if int(path.stem) > 2:
            path.unlink()
    again = CleanableLog(tmp_path)
    assert again.log.first_unstable_offset == 5
    again.manager.close()


class ThrottleClock:
    """Seconds, which pass only in waits."""

    def __init__(self):
        self.now = 0.0
        self.waits = []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.waits.append(seconds)
        self.now += seconds


@pytest.fixture
def clock():
    return ThrottleClock()


@pytest.fixture
def throttle(clock):
    return Throttle(1000, clock=clock, sleep=clock.sleep)


def test_throttle_delays_bytes_until_aborted(clock, throttle):
    throttle.take(500, lambda: None)
    throttle.take(500, lambda: None)
    assert clock.now == pytest.approx(1.0)
    assert max(clock.waits) <= 0.3

    def stop():
        raise CleaningAborted("stop")

    with pytest.raises(CleaningAborted):
        throttle.take(10**9, stop)
    assert clock.now == pytest.approx(1.0)


@pytest.mark.parametrize("work_s", [0.0, 0.1, 0.5, 0.9])
def test_throttle_holds_its_rate_for_any_duration_of_work(clock, throttle, work_s):
    for _ in range(50):
        clock.now += work_s
        throttle.take(1000, lambda: None)
    assert 50_000 / clock.now == pytest.approx(1000, rel=0.02)


def test_throttle_pause_gives_one_second_of_credit(clock, throttle):
    clock.now = 60.0
    throttle.take(3000, lambda: None)
    assert clock.now == pytest.approx(62.0)


def test_pass_moves_bytes_at_the_configured_rate(tmp_path, clock):
    """Bytes read for the map, read for the copy and written count together."""
    opened = CleanableLog(tmp_path)
    opened.fill(600)
    rate = 10_000
    throttle = Throttle(rate, clock=clock, sleep=clock.sleep)
    taken, read = [], throttle.take

    def take(count, check):
        clock.now += 0.01  # of work
        taken.append(count)
        read(count, check)

    throttle.take = take
    size = sum(segment.size for segment in opened.part().segments)
    stats = clean(opened.part(), SETTINGS, keep=lambda: {TP}, throttle=throttle)
    assert sum(taken) == stats.bytes_moved == 2 * size + stats.bytes_after
    assert stats.bytes_moved / clock.now == pytest.approx(rate, rel=0.02)
    opened.manager.close()


def test_invalid_cleaner_settings_are_refused():
    with pytest.raises(ConfigError, match=r"dedupe\.buffer\.size"):
        LogManagerConfig(cleaner_dedupe_bytes=2 << 20, cleaner_threads=2)
    with pytest.raises(ConfigError):
        LogConfig(min_cleanable_ratio=1.5)
    topic = LogConfig().with_topic_overrides({"delete.retention.ms": "5"})
    assert topic.topic_values()["delete.retention.ms"] == "5"


@pytest.mark.parametrize("limit", [3, 1000])
def test_c_and_python_map_and_filter_alike(limit):
    native = pytest.importorskip("zkbroker.records._speedups")
    chance = random.Random(limit)
    data, offset = b"", 0
    for _ in range(80):
        records = [
            (
                b"k%d" % chance.randrange(30) if chance.random() < 0.9 else None,
                None if chance.random() < 0.2 else b"x" * chance.randrange(200),
                chance.randrange(10**12),
                (("h", b"1"),),
            )
            for _ in range(chance.randrange(1, 15))
        ]
        magic = chance.choice([0, 1, 2, 2])
        identity = {"producer_id": 4, "base_sequence": 0} if chance.random() < 0.2 else {}
        data += encode_message_set(
            records, magic=magic, base_offset=offset, **(identity if magic == 2 else {})
        )
        offset += len(records)
    tables = [bytearray(24 * 64), bytearray(24 * 64)]
    found = [
        twin.map_keys(table, 0, limit, data, 0, 0, 3, False)
        for twin, table in zip((native, portable), tables, strict=True)
    ]
    assert found[0] == found[1]
    assert tables[0] == tables[1]
    for keep in (False, True):
        position = 0
        while position < len(data):
            each = [
                twin.filter_entries(tables[0], data, position, 0, offset - 40, keep, False)
                for twin in (native, portable)
            ]
            assert each[0] == each[1]
            position = each[0][1]
            if not each[0][5]:
                break
            position += int.from_bytes(data[position + 8 : position + 12], "big") + 12


def test_md5_agrees_for_keys_of_every_length():
    native = pytest.importorskip("zkbroker.records._speedups")
    for size in (*range(130), 1000):
        data = encode_message_set([(bytes(size), b"", 0, ())], magic=0)
        tables = [bytearray(24 * 8), bytearray(24 * 8)]
        native.map_keys(tables[0], 0, 7, data, 0, 0, 0, False)
        portable.map_keys(tables[1], 0, 7, data, 0, 0, 0, False)
        assert tables[0] == tables[1]


def test_empty_map_uses_no_memory():
    def resident():
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    table = OffsetMap(256 << 20, 0.9, offsets=10**9)
    assert table.memory_bytes > 250 << 20
    assert resident() - before < 64 << 20
    table.close()


def test_map_memory_is_bounded():
    assert OffsetMap(2400, 0.9, offsets=10**9).memory_bytes == 2400
    assert OffsetMap(1 << 30, 0.9, offsets=10).memory_bytes < 1000
    assert kernels.map_keys is not None


@pytest.mark.parametrize("codec", list(Codec))
def test_pass_keeps_codec_and_format(tmp_path, codec):
    opened = CleanableLog(tmp_path)
    for number in range(30):
        records = [(b"k%d" % (number * 3 + at) if at else b"same", b"v", 1, ()) for at in range(3)]
        opened.log.append_as_leader(encode_message_set(records, codec=codec), leader_epoch=0)
    opened.log.roll()
    opened.clean()
    assert len(read_all(opened.log)) == 61
    opened.manager.close()


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
@pytest.mark.parametrize("superseded", [False, True])
def test_wrapper_of_mixed_magics_is_rewritten_in_one_format(tmp_path, codec, superseded):
    # Cleaners of 0.10.0 left wrappers of magic 1 around messages of magic 0 (KAFKA-4298).
    rows = [(b"k%d" % number, b"v%d" % number, -1, ()) for number in range(4)]
    mixed = wrap_message_set(encode_message_set(rows, magic=0), 1, 3, -1, False, codec)
    (tmp_path / str(TP)).mkdir()
    (tmp_path / str(TP) / f"{0:020d}.log").write_bytes(mixed)
    (tmp_path / ".kafka_cleanshutdown").touch()
    opened = CleanableLog(tmp_path)
    opened.send(b"k1" if superseded else b"other", b"later", magic=1)
    opened.log.roll()
    opened.clean()
    data = opened.log.read_bytes(0, 1 << 20, end=4)
    (entry,) = iter_entries(data, verify_crc=True)
    assert (entry.magic, entry.codec, entry.last_offset) == (1, codec, 3)
    messages = list(iter_entries(unwrap(data, entry, 1 << 20)))
    assert {each.magic for each in messages} == {1}
    # The offsets are relative, and the index finds them.
    kept = [0, 2, 3] if superseded else [0, 1, 2, 3]
    assert [each.base_offset for each in messages] == kept
    assert [r.offset for r in iter_records(data)] == kept
    for offset in range(4):
        found = opened.log.read_bytes(offset, 1, end=opened.log.log_end_offset)
        assert next(iter_entries(found)).last_offset == 3
    opened.manager.close()


def test_reconfiguration_applies_to_next_pass(tmp_path):
    opened = CleanableLog(tmp_path)
    cleaner = opened.manager.cleaner
    cleaner.start()
    before = len(cleaner._tasks)
    cleaner.reconfigure(
        LogManagerConfig(cleaner_threads=3, cleaner_dedupe_bytes=6 << 20, cleaner_bytes_per_s=5.0)
    )
    assert (before, sorted(cleaner._tasks)) == (1, [0, 1, 2])
    assert cleaner._settings.map_bytes == 2 << 20
    assert cleaner._throttle.bytes_per_s == 5.0
    cleaner.reconfigure(LogManagerConfig())
    # A surplus task ends at its next turn.
    cleaner._repeat(2)
    assert sorted(cleaner._tasks) == [0, 1]
    opened.manager.close()
