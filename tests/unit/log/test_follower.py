"""A follower's log: appends at the leader's offsets, truncations, restarts at an offset."""

import errno
import os
import random

import pytest

from tests.support.logs import (
    TP,
    WaitedForLock,
    append,
    crash,
    flip_bit,
    make_manager,
    message_set,
    read_all,
    reopened_log,
    start_log,
    started,
    started_log,
)
from tests.support.transactional import TransactionalLog
from zkbroker.errors import CorruptMessage, OffsetOutOfRange, ProtocolError, StorageError
from zkbroker.log import Log, names
from zkbroker.log.checkpoints import read_offsets
from zkbroker.records import Codec, encode_message_set, iter_entries, set_offsets
from zkbroker.records.layout import SIZE_AT

SMALL = {"segment_bytes": 1500, "index_interval_bytes": 200}
OTHER = TP._replace(partition=1)


def placed(offset: int, count: int = 1, *, epoch: int = 0, **settings) -> bytearray:
    """Return a batch with the offset and epoch that its leader assigned."""
    batch = bytearray(message_set(count, **settings))
    set_offsets(batch, 0, offset, epoch)
    return batch


def stored(log: Log) -> list[bytes]:
    return [segment.path(names.LOG).read_bytes() for segment in log.segments]


def everything(log: Log) -> bytes:
    found, at = b"", log.log_start_offset
    while data := log.read_bytes(at, 1 << 20, end=log.log_end_offset):
        found += data
        at = list(iter_entries(data))[-1].last_offset + 1
    return found


def test_follower_copies_leader_byte_for_byte(tmp_path):
    with started(tmp_path, **SMALL) as manager:
        leader, follower = manager.get_or_create(TP), manager.get_or_create(OTHER)
        for number in range(40):
            codec = Codec.GZIP if number % 2 else Codec.NONE
            data = message_set(2, magic=number % 3, codec=codec, prefix=f"{number}-")
            leader.append_as_leader(data, leader_epoch=number // 10)
        while follower.log_end_offset < leader.log_end_offset:
            at = follower.log_end_offset
            # A fetch usually ends within an entry.
            data = leader.read_bytes(at, 3000, end=leader.log_end_offset)
            result = follower.append_as_follower(data)
            assert (result.base_offset, result.last_offset) == (at, follower.log_end_offset - 1)
        assert len(follower.segments) > 5
        assert everything(follower) == everything(leader)
        assert [r.offset for r in read_all(follower)] == list(range(80))


def test_follower_keeps_offset_gaps_and_splits_large_set(tmp_path):
    with started_log(tmp_path, **SMALL) as log:
        offsets = [5, 9, 10, *range(40, 60)]
        data = b"".join(placed(offset) for offset in offsets)
        result = log.append_as_follower(data + placed(60)[:-1])
        assert (result.base_offset, log.log_end_offset) == (5, 60)
        assert result.size_bytes == len(data) == log.size_bytes
        assert max(segment.size for segment in log.segments) <= 1500
        assert everything(log) == data
        assert log.append_as_follower(placed(60)[:-1]).size_bytes == 0
    with reopened_log(tmp_path, **SMALL) as log:
        assert [r.offset for r in read_all(log)] == offsets


def test_follower_refuses_invalid_sets_without_writing(tmp_path):
    with started_log(tmp_path) as log:
        log.append_as_follower(placed(0, 10))
        before, epochs = stored(log), log.epochs.all()
        damaged = placed(12)
        damaged[-1] ^= 1
        wrapper = message_set(3, magic=1, codec=Codec.GZIP)  # of offsets 0 to 2
        for bad, error in (
            (placed(9, 3, epoch=7), ProtocolError),
            (placed(10) + placed(10), CorruptMessage),
            (placed(10, epoch=7) + damaged, CorruptMessage),
            (b"\0" * 100, CorruptMessage),
            (wrapper, ProtocolError),
        ):
            with pytest.raises(error):
                log.append_as_follower(bad)
            assert (stored(log), log.log_end_offset, log.epochs.all()) == (before, 10, epochs)


def test_follower_takes_epochs_from_batches(tmp_path):
    with started_log(tmp_path) as log:
        log.append_as_follower(placed(0, 5, epoch=1) + placed(5, epoch=1) + placed(6, epoch=4))
        log.append_as_follower(placed(9, epoch=4) + placed(10, epoch=6))
        assert log.epochs.all() == [(1, 0), (4, 6), (6, 10)]
        ends = [log.end_offset_for_epoch(epoch) for epoch in (0, 1, 3, 4, 5, 6, 7)]
        assert ends == [(0, 0), (1, 6), (1, 6), (4, 10), (4, 10), (6, 11), (-1, -1)]
        with pytest.raises(ProtocolError, match="led under epoch 6"):
            append(log, 1, epoch=5)
        assert log.log_end_offset == 11
        # Old messages carry no epoch, so epochs no longer show where two logs diverge.
        old = bytearray(message_set(1, magic=1))
        old[:8] = (11).to_bytes(8, "big")
        log.append_as_follower(old)
        assert log.epochs.latest == -1


def test_follower_takes_transactions_from_batches(tmp_path):
    source = TransactionalLog(tmp_path / "unused")
    source.play(3)
    with started_log(tmp_path / "logs", segment_bytes=2000) as log:
        log.append_as_follower(b"".join(entry for _, entry in source.entries))
        assert [tuple(each) for s in log.segments for each in s.aborted] == source.aborted
        first = log.first_unstable_offset
        assert (log.log_end_offset if first is None else first) == source.stable
    crashed, log = start_log(tmp_path / "logs", segment_bytes=2000)
    assert log.first_unstable_offset == first
    crash(crashed)


def test_read_ends_at_given_end(tmp_path):
    with started_log(tmp_path, **SMALL) as log:
        for count in (3, 1, 4, 1, 5, 9, 2, 6):
            append(log, count)
        last = log.log_end_offset
        ends = [e.last_offset + 1 for e in iter_entries(everything(log))]
        for end in range(last + 3):
            for offset in range(last + 1):
                at, seen = offset, []
                while data := log.read_bytes(at, 1, end=end):
                    seen += [entry.last_offset + 1 for entry in iter_entries(data)]
                    at = seen[-1]
                assert seen == [each for each in ends if offset < each <= end]
        for offset in (-1, last + 1):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, 100, end=last)


@pytest.mark.parametrize("seed", range(10))
def test_truncated_log_equals_log_that_was_never_longer(tmp_path, seed):
    chance = random.Random(seed)
    manager = make_manager(tmp_path, **SMALL)
    manager.start()
    log, twin = manager.get_or_create(TP), manager.get_or_create(OTHER)
    source = TransactionalLog(tmp_path / "unused")
    source.play(seed)
    entries = [(offset, bytearray(entry)) for offset, entry in source.entries]
    for number, (offset, entry) in enumerate(entries):
        set_offsets(entry, 0, offset, number // 10)
        log.append_as_follower(entry)
    log.flush()
    kept = chance.randrange(1, len(entries))
    end = entries[kept][0]
    assert log.truncate_to(end) == log.log_end_offset == end
    assert log.recovery_point <= end
    assert read_offsets(tmp_path / names.RECOVERY_POINTS)[TP] <= end
    for _, entry in entries[:kept]:
        twin.append_as_follower(entry)
    for _ in range(2):
        assert everything(log) == everything(twin)
        assert log.epochs.all() == twin.epochs.all()
        assert log.first_unstable_offset == twin.first_unstable_offset
        assert [t for s in log.segments for t in s.aborted] == [
            t for s in twin.segments for t in s.aborted
        ]
        for timestamp in (0, 1_700_000_000_000 + end // 2, 1_700_000_000_000 + end):
            assert log.offset_for_timestamp(timestamp, end) == twin.offset_for_timestamp(
                timestamp, end
            )
        # The log continues at the truncation, and its indexes find every entry.
        for offset, entry in entries[kept:]:
            log.append_as_follower(entry)
            twin.append_as_follower(entry)
            assert log.read_bytes(offset, 1, end=log.log_end_offset) == entry
        assert everything(log) == b"".join(entry for _, entry in entries)
        log.truncate_to(end)
        twin.truncate_to(end)
    crash(manager)
    with started(tmp_path, **SMALL) as manager:
        assert everything(manager.get(TP)) == everything(manager.get(OTHER))
        assert manager.get(TP).log_end_offset == end


def test_truncation_within_entry_removes_entry(tmp_path):
    with started_log(tmp_path) as log:
        log.append_as_follower(placed(0, 4) + placed(4, 4))
        wrapper = message_set(3, magic=1, codec=Codec.GZIP)
        log.append_as_leader(wrapper, leader_epoch=0)
        assert log.truncate_to(11) == 11
        assert log.truncate_to(10) == 8
        assert log.truncate_to(6) == 4
        assert log.truncate_to(9) == 4
        assert [r.offset for r in read_all(log)] == [0, 1, 2, 3]


def test_truncation_at_damage_changes_nothing(tmp_path):
    with started_log(tmp_path, **SMALL) as log:
        append(log, 1, times=40)
        end, later = log.log_end_offset, log.segments[1].base_offset
        held = log.read(5, 1, end=end)
        flip_bit(log.segments[0].path(names.LOG), held.slice.position + SIZE_AT, 0x7F)
        held.slice.close()
        with pytest.raises(CorruptMessage):
            log.truncate_to(5)
        assert log.log_end_offset == end
        assert [record.offset for record in read_all(log, start=later)] == [*range(later, end)]


def test_truncation_forgets_sequences(tmp_path):
    def batch(sequence):
        return encode_message_set(
            [(None, b"x", 0, ())], producer_id=7, producer_epoch=0, base_sequence=sequence
        )

    with started_log(tmp_path) as log:
        for sequence in range(4):
            log.append_as_leader(batch(sequence), leader_epoch=0)
        log.truncate_to(2)
        with pytest.raises(ProtocolError, match="expected 2"):
            log.append_as_leader(batch(3), leader_epoch=0)
        assert not log.append_as_leader(batch(2), leader_epoch=0).duplicate
        assert log.append_as_leader(batch(1), leader_epoch=0).duplicate


@pytest.mark.parametrize("start", [3, 500])
def test_log_restarts_at_offset(tmp_path, start):
    manager, log = start_log(tmp_path, **SMALL)
    log.append_as_follower(b"".join(placed(offset, epoch=2) for offset in range(10, 50)))
    log.flush()
    held = log.read(10, 300, end=50)
    log.truncate_fully_and_start_at(start)
    assert os.pread(held.slice.fd, 300, held.slice.position)[:8] == (10).to_bytes(8, "big")
    held.slice.close()
    assert (log.log_start_offset, log.log_end_offset, log.epochs.latest) == (start, start, -1)
    assert log.size_bytes == 0
    assert log.recovery_point <= start
    log.append_as_follower(placed(start, 2, epoch=5))
    for _ in range(2):
        assert [r.offset for r in read_all(manager.get(TP))] == [start, start + 1]
        assert manager.get(TP).epochs.all() == [(5, start)]
        crash(manager)
        manager = make_manager(tmp_path, **SMALL)
        manager.start()
    manager.close()


def test_truncation_lowers_recovery_point(tmp_path):
    with started_log(tmp_path) as log:
        append(log, 10)
        log.flush()
        log.truncate_to(0)
        assert log.recovery_point == 0
        append(log, 4)
        assert log.flush() == log.recovery_point == 4


def test_flush_during_truncation_does_not_raise_stored_recovery_point(tmp_path):
    with started_log(tmp_path, segment_bytes=1000) as log:
        append(log, 1, times=40)
        directory = log.directory
        lock = directory._writing

        def flush_before_the_next_write():
            directory._writing = WaitedForLock(lock, log.flush)

        # The first write is about compacted offsets, the second about the recovery point.
        directory._writing = WaitedForLock(lock, flush_before_the_next_write)
        assert log.truncate_to(5) == 5
        # A power cut could tear later segments below a higher one, which recovery would not verify.
        assert read_offsets(tmp_path / names.RECOVERY_POINTS)[TP] <= 5


def test_only_new_epoch_is_written_off_event_loop(tmp_path, monkeypatch):
    with started_log(tmp_path, **SMALL) as log:
        offloaded = []
        offload = log.writer._offload
        monkeypatch.setattr(
            log.writer,
            "_offload",
            lambda assign: offloaded.append(assign.args) or offload(assign),
        )
        for offset in range(5):
            log.append_as_follower(placed(offset, epoch=3))
        assert offloaded == [(3, 0)]
        log.append_as_follower(placed(5, epoch=4))
        assert offloaded == [(3, 0), (4, 5)]


def test_disk_failing_while_an_epoch_is_written_refuses_the_append(tmp_path, monkeypatch):
    with started_log(tmp_path, **SMALL) as log:

        def fails_for_another_log(assign):
            assign()
            log.directory.fail(OSError(errno.EIO, "the disk failed"))

        monkeypatch.setattr(log.writer, "_offload", fails_for_another_log)
        with pytest.raises(StorageError, match="the disk failed"):
            log.append_as_follower(placed(0, epoch=3))
        assert log.log_end_offset == 0
