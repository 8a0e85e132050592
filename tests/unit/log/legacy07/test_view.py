"""The bytes that a view of 0.7 shows, flushes and keeps."""

import errno

import pytest

from tests.support.logs import (
    HookedFileSystem,
    append_transactional,
    end_transaction,
    failing,
    open_paths,
)
from tests.support.views07 import shown
from zkbroker.errors import OffsetOutOfRange, StorageError
from zkbroker.records import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper

WRAPPER = build_wrapper(Codec.GZIP, build_message(b"a") + build_message(b"b", magic=0))


@pytest.fixture
def found(tmp_path):
    with shown(tmp_path) as made:
        yield made


def test_sent_bytes_are_shown_unchanged_and_other_messages_rendered(found):
    sent = build_message(b"one", magic=0) + build_message(b"x", attributes=0x40) + WRAPPER
    found.old(sent)
    found.modern(b"two", None, codec=Codec.LZ4)
    found.old(build_message(b"three"))
    found.show()
    rendered = build_message(b"two") + build_message(b"")
    assert found.bytes() == sent + rendered + build_message(b"three")


def test_view_renders_configured_magic(tmp_path):
    with shown(tmp_path, message_magic=0) as found:
        found.modern(b"two")
        found.show()
        assert found.bytes() == build_message(b"two", magic=0)


def test_view_shows_only_flushed_messages(tmp_path):
    with shown(tmp_path, flush_messages=3) as found:
        found.modern(b"one", b"two")
        found.view.catch_up()
        assert found.payloads() == []
        assert found.log.recovery_point == 0
        found.modern(b"three")
        found.view.catch_up()
        assert found.payloads() == [b"one", b"two", b"three"]
        # The master was flushed before anything of it was shown.
        assert found.log.recovery_point == 3


def test_view_shows_only_messages_below_high_watermark(tmp_path):
    with shown(tmp_path, mark=0) as found:
        found.old(WRAPPER)
        found.modern(b"two")
        found.show()
        assert found.payloads() == []
        found.mark = 2
        found.show()
        assert found.bytes() == WRAPPER
        assert found.view.behind is False
        found.mark = 3
        assert found.view.behind is True


def test_other_appends_are_shown_after_current_append(found):
    with found.view.appending():
        term = found.master.term
        found.modern(b"others")
        found.show()
        assert found.payloads() == []
    found.show()
    assert found.payloads() == [b"others"]
    assert term == found.master.term


def test_sent_set_above_pending_bound_is_rendered(tmp_path):
    with shown(tmp_path, pending_bytes=10) as found:
        found.old(WRAPPER)
        found.show()
        assert found.bytes() == build_message(b"a") + build_message(b"b")


def test_set_sent_in_earlier_term_is_rendered_from_master(tmp_path):
    with shown(tmp_path, mark=0) as found:
        found.old(WRAPPER)
        found.log.truncate_to(0)
        found.modern(b"other", b"messages")
        found.mark = 2
        found.show()
        assert found.payloads() == [b"other", b"messages"]


def test_view_shows_only_committed_transactions(found):
    for producer, commit in ((1, True), (2, False)):
        record = (None, b"of %d" % producer, 1, ())
        append_transactional(found.log, producer=producer, record=record)
        found.show()
        assert len(found.payloads()) == 2 * (producer - 1)
        end_transaction(found.log, producer, commit=commit)
        found.modern(b"plain")
        found.show()
    assert found.payloads() == [b"of 1", b"plain", b"plain"]
    assert found.view.next_offset == found.log.log_end_offset


def test_view_appends_new_messages_after_master_truncation(found):
    found.modern(b"one")
    found.modern(b"two")
    found.show()
    before = found.bytes()
    found.log.truncate_to(1)
    found.epoch = 1
    found.modern(b"other two")
    found.modern(b"three")
    found.show()
    assert found.bytes()[: len(before)] == before
    assert found.payloads() == [b"one", b"two", b"other two", b"three"]
    found.reopen()
    found.show()
    assert found.payloads() == [b"one", b"two", b"other two", b"three"]


def test_messages_are_shown_once_across_epochs(found):
    found.modern(b"one")
    found.epoch = 1
    found.modern(b"two")
    found.show()
    found.reopen()
    found.show()
    assert found.payloads() == [b"one", b"two"]


def test_missed_truncation_is_detected_by_epoch(found):
    found.modern(b"one")
    found.modern(b"two")
    found.show()
    found.logs.close()
    found.log.truncate_to(1)
    found.epoch = 1
    found.modern(b"other two")
    found.modern(b"three")
    found.log.lowest_cut = 2**63 - 1
    found.open()
    found.show()
    assert found.payloads() == [b"one", b"two", b"other two", b"three"]


def test_unflushed_messages_are_dropped_on_master_truncation(found):
    found.modern(b"one")
    found.modern(b"two")
    found.view.catch_up()
    found.log.truncate_to(1)
    found.epoch = 1
    found.modern(b"other")
    found.view.flush()
    assert found.payloads() == []
    found.show()
    assert found.payloads() == [b"one", b"other"]


def test_detached_view_is_read_only(found):
    found.modern(b"one")
    found.show()
    found.modern(b"two")
    found.view.catch_up()
    found.view.attach(None)
    found.view.flush()
    found.view.catch_up()
    assert found.payloads() == [b"one"]
    with pytest.raises(StorageError, match="append to its master"):
        found.view.append(build_message(b"x"), 1)
    found.view.attach(found.master)
    found.show()
    assert found.payloads() == [b"one", b"two"]


def test_messages_deleted_from_master_are_out_of_range(tmp_path):
    with shown(tmp_path, file_bytes=100, retention_ms=-1) as found:
        for number in range(20):
            found.modern(b"%d" % number * 30)
        found.show()
        end = found.view.end
        found.log.advance_start_to(10)
        assert found.view.delete_expired() > 0
        assert found.payloads()[-10:] == [b"%d" % number * 30 for number in range(10, 20)]
        with pytest.raises(OffsetOutOfRange):
            found.view.read(0, 100)
        found.log.advance_start_to(20)
        found.view.delete_expired()
        assert (found.view.start, found.view.end) == (end, end)
        found.modern(b"next")
        found.reopen()
        found.show()
        assert found.payloads() == [b"next"]
        assert found.view.start == end


def test_failed_map_write_fails_the_view(tmp_path):
    def full_for_map_records(fd, data):
        if b"zkb07map" not in bytes(data) and len(data) < 60:
            raise OSError(errno.ENOSPC, "No space left on device")

    fs = HookedFileSystem()
    with shown(tmp_path, fs=fs) as found:
        found.modern(b"x" * 100)
        found.view.catch_up()
        fs.before["write_all"] = full_for_map_records
        with pytest.raises(StorageError, match="the map of"):
            found.view.flush()
        assert found.view.failed
        assert found.payloads() == []
        fs.before.clear()
        found.logs.close()
        found.open()
        found.show()
        assert found.payloads() == [b"x" * 100]


def test_directory_tasks_flush_and_delete_views(tmp_path):
    with shown(tmp_path, flush_check_ms=1, file_bytes=50, retention_ms=-1) as found:
        for letter in (b"x", b"y"):
            found.modern(letter * 60)
            found.view.catch_up()
        found.clock.advance(5)
        found.logs._flush_due()
        assert len(found.payloads()) == 2
        found.modern(b"z" * 60)
        found.view.catch_up()
        found.log.truncate_to(2)
        found.log.advance_start_to(1)
        # The truncated, unflushed bytes are dropped; the deletion goes on.
        found.logs._delete_expired()
        assert found.payloads() == [b"y" * 60]
        assert found.view.next_offset == 2


def test_view_with_failed_disk_is_deleted_and_closes_its_files(tmp_path):
    fs = HookedFileSystem()
    with shown(tmp_path, fs=fs) as found:
        found.modern(b"x" * 100)
        found.view.catch_up()
        folder = str(found.view.directory)
        assert held_files(folder)
        fs.before["truncate"] = failing(errno.EIO)
        found.logs.delete_view("t", 0)
        assert not found.view.directory.exists()
        assert not held_files(folder)
        assert not found.logs.views()


def held_files(folder):
    return [path for path in open_paths() if path.startswith(folder)]


@pytest.mark.parametrize("call", ["write_all", "fsync_dir"])
def test_failed_roll_leaves_no_file_behind(tmp_path, call):
    fs = HookedFileSystem()
    with shown(tmp_path, fs=fs) as found:
        found.modern(b"x" * 100)
        found.show()
        before = sorted(found.view.directory.iterdir())
        found.log.advance_start_to(1)
        for succeed in range(2 if call == "fsync_dir" else 1):
            outcomes = [None] * succeed

            def run_out(*arguments, outcomes=outcomes):
                if call == "fsync_dir" or arguments[-1][:8] == b"zkb07map":
                    if not outcomes:
                        raise OSError(errno.ENOSPC, "No space left on device")
                    outcomes.pop()

            fs.before[call] = run_out
            with pytest.raises(StorageError, match="files not deleted"):
                found.view.delete_expired()
            assert sorted(found.view.directory.iterdir()) == before
        fs.before.clear()
        found.modern(b"y" * 100)
        found.show()
        assert found.payloads() == [b"x" * 100, b"y" * 100]
        found.reopen()
        assert found.payloads() == [b"x" * 100, b"y" * 100]


def test_view_that_is_being_deleted_has_no_readers(tmp_path):
    fs = HookedFileSystem()
    seen = []
    with shown(tmp_path, fs=fs) as found:
        fs.before["remove_tree"] = lambda path: seen.append(
            (found.logs.get("t", 0), found.logs.topics)
        )
        found.logs.delete_view("t", 0)
        assert seen == [(None, frozenset())]
        assert not found.view.directory.exists()


def test_file_that_cannot_be_deleted_stays_and_is_deleted_later(tmp_path):
    def keep_logs(path):
        if path.suffix == ".kafka":
            raise OSError(errno.EIO, "Input/output error")

    fs = HookedFileSystem()
    with shown(tmp_path, fs=fs, file_bytes=50) as found:
        for letter in b"xyz":
            found.modern(bytes([letter]) * 60)
            found.show()
        found.log.advance_start_to(1)
        fs.before["unlink"] = keep_logs
        with pytest.raises(StorageError, match="not deleted"):
            found.view.delete_expired()
        fs.before.clear()
        assert found.view.delete_expired() == 1
        assert found.payloads() == [b"y" * 60, b"z" * 60]
