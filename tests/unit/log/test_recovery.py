"""The longest valid prefix of a log with offset gaps, and files that a compaction left."""

import pytest

from tests.support.damage import log_files
from tests.support.logs import (
    TP,
    EagerRuntime,
    append,
    flip_bit,
    make_manager,
    message_set,
    read_all,
    reopened_log,
    start_log,
    started,
    started_log,
)
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.log import TopicPartition, names
from zkbroker.log.recovery.scan import count_valid_messages, scan_segment
from zkbroker.records import Codec, set_offsets


def entry(offset, *, count=1, magic=2, codec=Codec.NONE, prefix="v"):
    data = bytearray(message_set(count, magic=magic, codec=codec, prefix=prefix))
    if magic == 2:
        set_offsets(data, 0, offset)
    else:
        data[:8] = (offset + count - 1).to_bytes(8, "big")
    return bytes(data)


def scan(tmp_path, *entries, base=0, **kwargs):
    path = tmp_path / f"{base:020d}.log"
    path.write_bytes(b"".join(entries))
    return scan_segment(path, base, next_base=kwargs.pop("next_base", None), **kwargs)


def test_offset_gap_confirmed_by_next_entry_is_valid(tmp_path):
    found = scan(tmp_path, entry(0), entry(5), entry(6))
    assert (found.reason, found.next_offset, found.gaps) == (None, 7, True)
    # With gaps before it, the last entry may jump too.
    found = scan(tmp_path, entry(0), entry(5), entry(9))
    assert (found.reason, found.next_offset) == (None, 10)


def test_offset_gap_contradicted_by_next_entry_is_damage(tmp_path):
    found = scan(tmp_path, entry(0), entry(5), entry(2))
    assert found.reason == "invalid entry: offset 5 where 1 is next"
    assert found.next_offset == 1


def test_last_entry_of_compacted_log_may_follow_gap(tmp_path):
    assert scan(tmp_path, entry(0), entry(5)).reason is not None
    found = scan(tmp_path, entry(0), entry(5), gaps_allowed=True)
    assert (found.reason, found.next_offset) == (None, 6)


def test_segment_reaching_into_next_one_is_damaged(tmp_path):
    assert scan(tmp_path, entry(0), entry(1), next_base=2).reason is None
    assert "later segment" in scan(tmp_path, entry(0, count=3), next_base=2).reason


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_offsets_inside_compressed_entries_are_checked(tmp_path, codec):
    good = entry(0, count=3, magic=1, codec=codec) if codec else entry(0, count=3)
    assert scan(tmp_path, good, entry(3)).reason is None
    assert scan(tmp_path, good, entry(4)).reason is not None


def test_entry_larger_than_read_chunk_is_scanned(tmp_path):
    large = bytearray(message_set(1, size=5 << 20))
    found = scan(
        tmp_path,
        entry(0),
        entry(1),
        bytes(large).replace(bytes(8), (2).to_bytes(8, "big"), 1),
        entry(3),
    )
    assert (found.reason, found.next_offset) == (None, 4)


def test_valid_messages_behind_damage_are_counted(tmp_path):
    path = tmp_path / "x.log"
    path.write_bytes(
        b"junk" * 50 + entry(7, count=3) + bytes(1000) + entry(20, magic=0) + b"\0" * 7
    )
    assert count_valid_messages(path, 0) == 4
    assert count_valid_messages(path, 201) == 1


def write(directory, name, *entries):
    (directory / name).write_bytes(b"".join(entries))


def offsets(tmp_path):
    with started(tmp_path, runtime=EagerRuntime()) as manager:
        log = manager.get(TopicPartition("c", 0))
        assert not [path for path in log.path.iterdir() if path.suffix in (".swap", ".cleaned")]
        return [record.offset for record in read_all(log)]


@pytest.fixture
def compacted(tmp_path):
    """A compacted log of three segments, as a genuine broker keeps it."""
    directory = tmp_path / "c-0"
    directory.mkdir()
    write(directory, f"{0:020d}.log", entry(0), entry(1), entry(2), entry(3))
    write(directory, f"{4:020d}.log", entry(4), entry(5), entry(6))
    write(directory, f"{7:020d}.log", entry(7))
    return directory


def test_complete_genuine_swap_is_finished(tmp_path, compacted):
    write(compacted, f"{0:020d}.log.swap", entry(1), entry(5), entry(6))
    write(compacted, f"{0:020d}.index.swap")
    assert offsets(tmp_path) == [1, 5, 6, 7]


def test_incomplete_genuine_swap_is_dropped(tmp_path, compacted):
    # Only the higher of two new segments was already renamed to .swap.
    write(compacted, f"{0:020d}.log.cleaned", entry(1))
    write(compacted, f"{4:020d}.log.swap", entry(6))
    assert offsets(tmp_path) == list(range(8))


def test_leftover_deleted_files_and_orphaned_indexes_are_removed(tmp_path, compacted):
    write(compacted, f"{0:020d}.log.deleted", b"x")
    write(compacted, f"{50:020d}.index", b"x")
    write(compacted, f"{50:020d}.snapshot.tmp", b"x")
    assert offsets(tmp_path) == list(range(8))
    assert not list(compacted.glob(f"{50:020d}*"))
    assert not list(compacted.glob("*.deleted"))


def test_directory_named_like_segment_is_ignored(tmp_path, compacted):
    (compacted / f"{3:020d}.log").mkdir()
    (compacted / f"{3:020d}.index.deleted").mkdir()
    assert offsets(tmp_path) == list(range(8))


def test_recovery_works_under_gevent(tmp_path):
    with started_log(tmp_path, segment_bytes=2000) as log:
        append(log, 3, times=30)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    manager = make_manager(tmp_path, runtime="gevent")
    assert manager.start() == []
    assert len(read_all(manager.get(TP))) == 90
    append(manager.get(TP), 1)
    manager.upkeep.checkpoint()
    manager.close()


@pytest.mark.parametrize("file", ["missing", "torn", "old", "complete"])
def test_missing_leader_epochs_are_taken_from_batches(tmp_path, file):
    with started_log(tmp_path, runtime=EagerRuntime()) as log:
        for epoch in (0, 3, 7):
            log.writer.begin_epoch(epoch)
            append(log, 2, epoch=epoch)
        log.writer.begin_epoch(8)
        path = log.path / names.LEADER_EPOCHS
    (tmp_path / names.CLEAN_SHUTDOWN).unlink()
    known = [(0, 0), (3, 2), (7, 4)]
    if file == "missing":
        path.unlink()
    elif file == "torn":
        path.write_bytes(b"0\n3\n0 ")
    elif file == "old":
        path.write_bytes(b"0\n1\n0 0\n")
    else:
        known.append((8, 6))
    with reopened_log(tmp_path, runtime=EagerRuntime()) as log:
        assert log.epochs.all() == known


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_damaged_leader_epoch_holds_until_controller_decision(tmp_path, damaged):
    manager, log = start_log(tmp_path)
    for epoch in (3, 3, 4):
        append(log, 1, epoch=epoch)
    manager.abandon()
    (tmp_path / ".lock").unlink()
    (path,) = log_files(tmp_path)
    flip_bit(path, damaged * path.stat().st_size // 3 + 13, 2)  # 131072 more
    with reopened_log(tmp_path) as found:
        assert found.log_end_offset == 3
        latest = found.epochs.latest
        assert latest > 100_000
        with pytest.raises(ProtocolError) as raised:
            found.writer.begin_epoch(5)
        assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH
        found.writer.begin_epoch(5, may_fall=True)
        append(found, 1, epoch=5)
        assert found.epochs.latest == 5
        with pytest.raises(ProtocolError):
            append(found, 1, epoch=4)
