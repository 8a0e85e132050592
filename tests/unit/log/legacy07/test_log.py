"""A 0.7 log: positions, flushes, rolls, retention and failing disks."""

import errno
import os

import pytest

from tests.support.clocks import Clock
from tests.support.legacy07 import open_logs, read
from tests.support.logs import HookedFileSystem, failing
from zkbroker.errors import OffsetOutOfRange, StorageError
from zkbroker.records.legacy07 import build_message

HOUR_MS = 3_600_000


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def opened(tmp_path, clock):
    """Opens the directory with settings, and closes it at the end."""
    made = []

    def open_with(**settings):
        settings = {"flush_messages": 1, "flush_check_ms": 10**9, "cleanup_ms": 10**9, **settings}
        logs = open_logs(tmp_path, now_ms=clock, fs=settings.pop("fs", None), **settings)
        made.append(logs)
        return logs

    yield open_with
    for logs in made:
        logs.close()


def touch(log, clock):
    """Set the modification times of the files to the clock's time."""
    for path in log.files:
        os.utime(path, (clock.now / 1000, clock.now / 1000))


def append(log, payload=b"hello"):
    return log.append(build_message(payload), 1)


def test_readers_see_only_flushed_bytes(opened, clock):
    logs = opened(flush_messages=3, flush_ms=5000)
    log = logs.get_or_make("t", 0)
    one = build_message(b"hello")
    append(log)
    append(log)
    assert (log.end, log.visible_end) == (2 * len(one), 0)
    assert read(log, 0, 1000) == b""
    assert log.offsets(-1, 10) == [0, 0]
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000)
    append(log)
    assert read(log, 0, 1000) == one * 3
    append(log)
    log.flush_if_due()
    assert log.visible_end == 3 * len(one)
    clock.now += 5000
    log.flush_if_due()
    assert log.visible_end == log.end == 4 * len(one)


def test_wrapper_counts_its_messages_for_flush(opened):
    log = opened(flush_messages=3).get_or_make("t", 0)
    log.append(build_message(b"stands for three"), 3)
    assert log.visible_end == log.end


def test_read_begins_anywhere_and_ends_with_its_file(opened):
    log = opened(file_bytes=20).get_or_make("t", 0)
    one = build_message(b"hello")
    for _ in range(4):
        append(log)
    # A file takes sets until it exceeds the limit: two of 15 bytes.
    assert [int(path.stem) for path in log.files] == [0, 30]
    assert read(log, 0, 10_000) == one * 2
    assert read(log, 7, 3) == one[7:10]
    assert read(log, 29, 100) == one[-1:]
    assert read(log, 30, 100) == one * 2
    assert read(log, 60, 100) == b""
    assert read(log, 0, 0) == b""
    for outside in (-1, 61):
        with pytest.raises(OffsetOutOfRange) as raised:
            log.read(outside, 10)
        assert (raised.value.earliest, raised.value.latest) == (0, 60)


def test_roll_age_counts_from_first_append(opened, clock):
    log = opened(roll_ms=HOUR_MS).get_or_make("t", 0)
    append(log)
    clock.now += HOUR_MS
    append(log)
    assert len(log.files) == 1
    clock.now += 1
    append(log)
    assert [int(path.stem) for path in log.files] == [0, 30]
    clock.now += 1
    append(log)
    assert len(log.files) == 2


def test_roll_flushes_pending_bytes(opened):
    log = opened(file_bytes=1, flush_messages=100).get_or_make("t", 0)
    append(log)
    append(log)
    assert (log.visible_end, log.end) == (15, 30)


def test_offsets_before_time_follow_file_times(opened, clock):
    log = opened(file_bytes=1).get_or_make("t", 0)
    began = clock.now
    for _ in range(3):
        append(log)
        os.utime(log.files[-1], (clock.now / 1000, clock.now / 1000))
        clock.now += 1000
    assert log.offsets(-1, 100) == [45, 30, 15, 0]
    assert log.offsets(-1, 2) == [45, 30]
    assert log.offsets(-1, 0) == []
    assert log.offsets(-2, 100) == [0]
    assert log.offsets(began - 1, 100) == []
    assert log.offsets(began + 1000, 100) == [15, 0]
    assert log.offsets(clock.now, 100) == [45, 30, 15, 0]


def test_expired_files_are_deleted_and_positions_continue(opened, clock):
    logs = opened(file_bytes=1, retention_ms=HOUR_MS)
    log = logs.get_or_make("t", 0)
    append(log)
    append(log)
    touch(log, clock)
    assert log.delete_expired() == 0
    held = log.read(0, 100)
    clock.now += HOUR_MS + 1
    assert log.delete_expired() == 2
    # A reader of a deleted file can read on.
    assert os.pread(held.fd, held.size, held.position) == build_message(b"hello")
    held.close()
    assert [path.name for path in log.files] == [f"{30:020d}.kafka"]
    assert (log.start, log.end) == (30, 30)
    clock.now += 10 * HOUR_MS
    assert log.delete_expired() == 0
    assert append(log) == 30
    with pytest.raises(OffsetOutOfRange):
        log.read(0, 10)
    logs.close()
    again = opened().get("t", 0)
    assert (again.start, again.end) == (30, 45)


def test_size_retention_deletes_oldest_files(opened):
    log = opened(file_bytes=1, retention_bytes=30, retention_ms=-1).get_or_make("t", 0)
    for _ in range(4):
        append(log)
    assert log.delete_expired() == 2
    assert (log.start, log.end) == (30, 60)
    assert log.delete_expired() == 0


def test_topic_setting_overrides_default(opened):
    logs = opened(file_bytes=1, topic_file_bytes={"big": 1000})
    for topic, files in (("small", 2), ("big", 1)):
        log = logs.get_or_make(topic, 0)
        append(log)
        append(log)
        assert len(log.files) == files


def torn_write(fd, data):
    os.write(fd, data[:5])
    raise OSError(errno.ENOSPC, "No space left on device")


def test_append_after_full_disk_leaves_no_partial_message(opened):
    fs = HookedFileSystem()
    log = opened(fs=fs).get_or_make("t", 0)
    append(log)
    fs.before["write"] = torn_write
    with pytest.raises(StorageError, match="No space left"):
        append(log)
    fs.before.clear()
    assert append(log) == 15
    assert read(log, 0, 100) == build_message(b"hello") * 2


def test_failed_flush_refuses_appends_and_unmarks_clean_stop(opened, tmp_path):
    fs = HookedFileSystem()
    logs = opened(fs=fs)
    log = logs.get_or_make("t", 0)
    append(log)
    fs.before["fsync"] = failing(errno.EIO)
    with pytest.raises(StorageError, match="could not be flushed"):
        append(log)
    fs.before.clear()
    with pytest.raises(StorageError, match="restart the broker"):
        append(log)
    assert log.visible_end == 15
    logs.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_failed_roll_leaves_no_file_behind(opened, clock):
    fs = HookedFileSystem()
    logs = opened(fs=fs, retention_ms=HOUR_MS, roll_ms=1000 * HOUR_MS)
    log = logs.get_or_make("t", 0)
    append(log)
    touch(log, clock)
    clock.advance(2 * HOUR_MS)
    fs.before["fsync_dir"] = failing(errno.EIO)
    with pytest.raises(StorageError, match="not deleted"):
        log.delete_expired()
    fs.before.clear()
    append(log)
    logs.close()
    assert read(opened().get("t", 0), 0, 1000) == build_message(b"hello") * 2


def test_log_that_cannot_be_cut_back_refuses_appends(opened, tmp_path):
    fs = HookedFileSystem()
    logs = opened(fs=fs)
    log = logs.get_or_make("t", 0)
    append(log)
    fs.before |= {"write": torn_write, "truncate": failing(errno.EIO)}
    with pytest.raises(StorageError, match="cannot be written"):
        append(log)
    fs.before.clear()
    with pytest.raises(StorageError, match="could not be cut back"):
        append(log)
    logs.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    again = opened()
    assert [each.bytes_cut for each in again.cuts] == [5]
    log = again.get("t", 0)
    assert append(log) == 15
    assert read(log, 0, 100) == build_message(b"hello") * 2


def test_file_that_is_being_deleted_has_no_readers(opened, clock):
    seen = []

    def look(path):
        log.offsets(-1, 10)
        with pytest.raises(OffsetOutOfRange):
            log.read(0, 10)
        seen.append(log.start)

    fs = HookedFileSystem()
    log = opened(fs=fs, file_bytes=1, retention_ms=HOUR_MS).get_or_make("t", 0)
    for _ in range(3):
        append(log)
    touch(log, clock)
    os.utime(log.files[-1], (clock.now / 1000 + 10_000,) * 2)
    clock.advance(HOUR_MS + 1)
    fs.before["fsync_dir"] = look
    assert log.delete_expired() == 2
    fs.before.clear()
    assert seen == [15, 30]
    assert [each.name for each in log.directory.iterdir()] == [f"{30:020d}.kafka"]


def test_file_that_cannot_be_deleted_stays_and_is_deleted_later(opened, clock):
    fs = HookedFileSystem()
    log = opened(fs=fs, file_bytes=1, retention_bytes=1).get_or_make("t", 0)
    for _ in range(3):
        append(log)
    fs.before["unlink"] = failing(errno.EIO)
    with pytest.raises(StorageError, match="not deleted"):
        log.delete_expired()
    assert log.start == 0
    assert read(log, 0, 100) == build_message(b"hello")
    fs.before.clear()
    assert log.delete_expired() == 2
    assert log.start == 30
