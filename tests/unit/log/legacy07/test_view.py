"""A view step by step: what it shows, when, and what it keeps."""

import pytest

from tests.support.logs import UnsyncedFileSystem
from tests.support.views07 import shown
from zkbroker.errors import OffsetOutOfRange, StorageError
from zkbroker.records import Codec, encode_message_set
from zkbroker.records.legacy07 import build_message, build_wrapper

WRAPPER = build_wrapper(Codec.GZIP, build_message(b"a") + build_message(b"b", magic=0))


def test_what_was_sent_is_shown_as_it_came_and_the_rest_rendered(tmp_path):
    with shown(tmp_path) as found:
        sent = build_message(b"one", magic=0) + build_message(b"x", attributes=0x40) + WRAPPER
        found.old(sent)
        found.modern(b"two", None, codec=Codec.LZ4)
        found.old(build_message(b"three"))
        found.show()
        rendered = build_message(b"two") + build_message(b"")
        assert found.bytes() == sent + rendered + build_message(b"three")


def test_the_magic_for_clients_that_know_one_alone(tmp_path):
    with shown(tmp_path, message_magic=0) as found:
        found.modern(b"two")
        found.show()
        assert found.bytes() == build_message(b"two", magic=0)


def test_only_what_is_flushed_is_seen(tmp_path):
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


def test_nothing_above_the_high_watermark_is_shown(tmp_path):
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


def test_what_others_append_meanwhile_waits_for_what_is_being_appended(tmp_path):
    with shown(tmp_path) as found:
        with found.view.appending():
            term = found.master.term
            found.modern(b"others")
            found.show()
            assert found.payloads() == []
        found.show()
        assert found.payloads() == [b"others"]
        assert term == found.master.term


def test_more_than_may_be_kept_is_rendered(tmp_path):
    with shown(tmp_path, pending_bytes=10) as found:
        found.old(WRAPPER)
        found.show()
        assert found.bytes() == build_message(b"a") + build_message(b"b")


def test_what_was_sent_in_another_term_is_rendered_from_the_master(tmp_path):
    with shown(tmp_path, mark=0) as found:
        found.old(WRAPPER)
        found.log.truncate_to(0)
        found.modern(b"other", b"messages")
        found.mark = 2
        found.show()
        assert found.payloads() == [b"other", b"messages"]


def test_transactions_show_what_was_committed(tmp_path):
    with shown(tmp_path) as found:
        for producer, commit in ((1, True), (2, False)):
            asked = found.log.begin_verification(producer, 0)
            data = encode_message_set(
                [(None, b"of %d" % producer, 1, ())],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            found.log.append_as_leader(data, leader_epoch=0, verification=asked)
            found.show()
            assert len(found.payloads()) == 2 * (producer - 1)
            found.log.end_transaction(
                producer, 0, commit=commit, coordinator_epoch=0, leader_epoch=0
            )
            found.modern(b"plain")
            found.show()
        assert found.payloads() == [b"of 1", b"plain", b"plain"]
        assert found.view.next_offset == found.log.log_end_offset


def test_a_master_that_was_cut_below_what_is_shown_goes_on_behind_it(tmp_path):
    with shown(tmp_path) as found:
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


def test_what_goes_on_from_one_epoch_to_the_next_is_shown_once(tmp_path):
    with shown(tmp_path) as found:
        found.modern(b"one")
        found.epoch = 1
        found.modern(b"two")
        found.show()
        found.reopen()
        found.show()
        assert found.payloads() == [b"one", b"two"]


def test_a_cut_that_was_missed_is_found_by_its_epoch(tmp_path):
    with shown(tmp_path) as found:
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


def test_readers_never_saw_what_was_not_flushed_when_the_master_was_cut(tmp_path):
    with shown(tmp_path) as found:
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


def test_without_a_replica_it_is_read_and_not_written(tmp_path):
    with shown(tmp_path) as found:
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


def test_what_the_master_forgot_is_out_of_range(tmp_path):
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


def test_a_disk_that_fails_under_the_map_fails_the_view(tmp_path):
    class Failing(UnsyncedFileSystem):
        broken = False

        def write_all(self, fd, data):
            if self.broken and b"zkb07map" not in bytes(data) and len(data) < 60:
                raise OSError(28, "No space left on device")
            super().write_all(fd, data)

    fs = Failing()
    with shown(tmp_path, fs=fs) as found:
        found.modern(b"x" * 100)
        found.view.catch_up()
        fs.broken = True
        with pytest.raises(StorageError, match="the map of"):
            found.view.flush()
        assert found.view.failed
        assert found.payloads() == []
        fs.broken = False
        found.logs.close()
        found.open()
        found.show()
        assert found.payloads() == [b"x" * 100]


def test_the_loops_of_the_directory_flush_and_delete_as_views_do(tmp_path):
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
        # What is not flushed does not hold any more: it is dropped, and the rest done.
        found.logs._delete_expired()
        assert found.payloads() == [b"y" * 60]
        assert found.view.next_offset == 2
