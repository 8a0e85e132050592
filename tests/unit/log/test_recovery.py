"""What counts as the longest valid prefix where offsets have gaps, and what a compaction left."""

import pytest

from tests.support.damage import log_files
from tests.support.logs import TP, EagerRuntime, make_manager, message_set, read_all, started
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


def test_a_jump_that_the_next_entry_confirms_is_a_gap_that_a_compaction_left(tmp_path):
    found = scan(tmp_path, entry(0), entry(5), entry(6))
    assert (found.reason, found.next_offset, found.gaps) == (None, 7, True)
    # With gaps before it, the last entry may jump too.
    found = scan(tmp_path, entry(0), entry(5), entry(9))
    assert (found.reason, found.next_offset) == (None, 10)


def test_a_jump_that_the_next_entry_contradicts_is_a_damaged_offset(tmp_path):
    found = scan(tmp_path, entry(0), entry(5), entry(2))
    assert found.reason == "invalid entry: offset 5 where 1 is next"
    assert found.next_offset == 1


def test_the_last_entry_of_a_compacted_log_may_jump(tmp_path):
    assert scan(tmp_path, entry(0), entry(5)).reason is not None
    found = scan(tmp_path, entry(0), entry(5), gaps_allowed=True)
    assert (found.reason, found.next_offset) == (None, 6)


def test_a_segment_may_not_reach_into_the_next_one(tmp_path):
    assert scan(tmp_path, entry(0), entry(1), next_base=2).reason is None
    assert "later segment" in scan(tmp_path, entry(0, count=3), next_base=2).reason


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_offsets_inside_compressed_entries_count(tmp_path, codec):
    good = entry(0, count=3, magic=1, codec=codec) if codec else entry(0, count=3)
    assert scan(tmp_path, good, entry(3)).reason is None
    assert scan(tmp_path, good, entry(4)).reason is not None


def test_a_segment_is_never_read_as_a_whole_where_entries_are_larger_than_a_chunk(tmp_path):
    large = bytearray(message_set(1, size=5 << 20))
    found = scan(
        tmp_path,
        entry(0),
        entry(1),
        bytes(large).replace(bytes(8), (2).to_bytes(8, "big"), 1),
        entry(3),
    )
    assert (found.reason, found.next_offset) == (None, 4)


def test_valid_messages_behind_damage_are_counted_wherever_they_begin(tmp_path):
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


def test_a_genuine_swap_that_was_complete_is_finished(tmp_path, compacted):
    write(compacted, f"{0:020d}.log.swap", entry(1), entry(5), entry(6))
    write(compacted, f"{0:020d}.index.swap")
    assert offsets(tmp_path) == [1, 5, 6, 7]


def test_a_genuine_swap_that_was_not_complete_is_dropped(tmp_path, compacted):
    # The higher of two new segments became .swap already, the lower one did not.
    write(compacted, f"{0:020d}.log.cleaned", entry(1))
    write(compacted, f"{4:020d}.log.swap", entry(6))
    assert offsets(tmp_path) == list(range(8))


def test_leftovers_of_deletions_and_orphaned_indexes_are_removed(tmp_path, compacted):
    write(compacted, f"{0:020d}.log.deleted", b"x")
    write(compacted, f"{50:020d}.index", b"x")
    write(compacted, f"{50:020d}.snapshot.tmp", b"x")
    assert offsets(tmp_path) == list(range(8))
    assert not list(compacted.glob(f"{50:020d}*"))
    assert not list(compacted.glob("*.deleted"))


def test_what_has_the_name_of_a_segment_and_is_no_file_is_ignored(tmp_path, compacted):
    (compacted / f"{3:020d}.log").mkdir()
    (compacted / f"{3:020d}.index.deleted").mkdir()
    assert offsets(tmp_path) == list(range(8))


def test_recovery_under_gevent_leaves_the_hub_free(tmp_path):
    with started(tmp_path, segment_bytes=2000) as manager:
        log = manager.get_or_create(TP)
        for _ in range(30):
            log.append_as_leader(message_set(3), leader_epoch=0)
    (tmp_path / ".kafka_cleanshutdown").unlink()
    manager = make_manager(tmp_path, runtime="gevent")
    assert manager.start() == []
    assert len(read_all(manager.get(TP))) == 90
    manager.get(TP).append_as_leader(message_set(1), leader_epoch=0)
    manager.upkeep.checkpoint()
    manager.close()


@pytest.mark.parametrize("file", ["lost", "torn", "old", "whole"])
def test_leader_epochs_that_the_file_lacks_are_taken_from_the_batches(tmp_path, file):
    with started(tmp_path, runtime=EagerRuntime()) as manager:
        log = manager.get_or_create(TP)
        for epoch in (0, 3, 7):
            log.writer.begin_epoch(epoch)
            log.append_as_leader(message_set(2), leader_epoch=epoch)
        log.writer.begin_epoch(8)
        path = log.path / names.LEADER_EPOCHS
    (tmp_path / names.CLEAN_SHUTDOWN).unlink()
    known = [(0, 0), (3, 2), (7, 4)]
    if file == "lost":
        path.unlink()
    elif file == "torn":
        path.write_bytes(b"0\n3\n0 ")
    elif file == "old":
        path.write_bytes(b"0\n1\n0 0\n")
    else:
        known.append((8, 6))
    with started(tmp_path, runtime=EagerRuntime()) as manager:
        assert manager.get(TP).epochs.all() == known


@pytest.mark.parametrize("hurt", [0, 1, 2])
def test_a_damaged_leader_epoch_counts_until_the_controller_decides(tmp_path, hurt):
    manager = make_manager(tmp_path)
    manager.start()
    log = manager.get_or_create(TP)
    for epoch in (3, 3, 4):
        log.append_as_leader(message_set(1), leader_epoch=epoch)
    manager.abandon()
    (tmp_path / ".lock").unlink()
    (path,) = log_files(tmp_path)
    data = bytearray(path.read_bytes())
    data[hurt * len(data) // 3 + 13] ^= 2  # 131072 more
    path.write_bytes(data)
    with started(tmp_path) as again:
        found = again.get(TP)
        assert found.log_end_offset == 3
        latest = found.epochs.latest
        assert latest > 100_000
        with pytest.raises(ProtocolError) as raised:
            found.writer.begin_epoch(5)
        assert raised.value.code is ErrorCode.FENCED_LEADER_EPOCH
        found.writer.begin_epoch(5, may_fall=True)
        found.append_as_leader(message_set(1), leader_epoch=5)
        assert found.epochs.latest == 5
        with pytest.raises(ProtocolError):
            found.append_as_leader(message_set(1), leader_epoch=4)
