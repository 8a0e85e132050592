import struct
from pathlib import Path

import pytest

from zkbroker.admin.dump_log import DumpOptions, dump_log
from zkbroker.log.cleaner.unpacking import empty_batch
from zkbroker.log.producers.state import ProducerState
from zkbroker.records import Codec, encode_message_set, iter_entries

NAME = f"{100:020d}"


def dump(path: Path, **options) -> tuple[list[str], list[str]]:
    complaints: list[str] = []
    lines = list(dump_log([path], DumpOptions(**options), report=complaints.append))
    return lines[1:], complaints


@pytest.fixture
def log(tmp_path) -> Path:
    """Three batches: offsets 100-102, 103-105, 106-108, timestamps their own offsets."""
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(
        b"".join(
            encode_message_set([(None, b"v", base + i, ()) for i in range(3)], base_offset=base)
            for base in (100, 103, 106)
        )
    )
    return path


def write(log: Path, suffix: str, layout: str, *entries: tuple[int, ...]) -> Path:
    path = log.with_suffix(suffix)
    path.write_bytes(b"".join(struct.pack(layout, *entry) for entry in entries))
    return path


@pytest.mark.parametrize("offset", [3, 5])
def test_index_entry_may_have_first_or_last_offset_of_batch(log, offset):
    size = next(iter_entries(log.read_bytes())).size
    index = write(log, ".index", ">ii", (offset, size), (8, 2 * size))
    assert dump(index) == (
        [f"offset: {100 + offset} position: {size}", f"offset: 108 position: {2 * size}"],
        [],
    )


def test_index_entries_that_contradict_log_are_reported(log):
    size = next(iter_entries(log.read_bytes())).size
    index = write(log, ".index", ">ii", (2, size), (8, 3), (9, 100 * size))
    lines, complaints = dump(index)
    assert len(lines) == 3
    assert complaints == [
        f"Mismatches in :{index}",
        "  Index offset: 102, log offset: 105",
        "  Index offset: 108, log offset: -1",
        "  Index offset: 109, log offset: -1",
    ]


def test_zeros_of_preallocated_index_are_skipped(log):
    size = next(iter_entries(log.read_bytes())).size
    index = write(log, ".index", ">ii", (5, size), (0, 0), (0, 0))
    assert dump(index) == ([f"offset: 105 position: {size}"], [])


def test_empty_index_is_reported(log):
    index = write(log, ".index", ">ii")
    assert dump(index) == ([f"{index} is empty."], [])


def test_time_index_is_compared_with_log(log):
    good = write(log, ".timeindex", ">qi", (102, 2), (105, 5))
    assert dump(good) == (["timestamp: 102 offset: 102", "timestamp: 105 offset: 105"], [])
    bad = write(log, ".timeindex", ">qi", (105, 5), (104, 8), (200, 40))
    assert dump(bad, verify_index_only=True) == (
        [],
        [
            f"Found timestamp mismatch in :{bad}",
            "  Index timestamp: 104, log timestamp: 108",
            f"Found out of order timestamp in :{bad}",
            "  Index timestamp: 104, Previously indexed timestamp: 105",
            "The following indexed offsets are not found in the log.",
            "Indexed offset: 140, found log offset: -1",
        ],
    )


def test_time_index_of_damaged_log_is_compared_up_to_damage(log):
    data = log.read_bytes()
    size = next(iter_entries(data)).size
    damaged = bytearray(data)
    damaged[size + 16] = 9  # no magic number
    log.write_bytes(damaged)
    index = write(log, ".timeindex", ">qi", (102, 2), (105, 5))
    lines, complaints = dump(index)
    assert lines == ["timestamp: 102 offset: 102", "timestamp: 105 offset: 105"]
    assert "magic" in complaints[0]
    assert complaints[-1] == "Indexed offset: 105, found log offset: -1"


def test_time_index_may_name_batch_that_compaction_emptied(log):
    data = log.read_bytes()
    first = next(iter_entries(data))
    log.write_bytes(bytes(empty_batch(first)) + data[first.size :])
    index = write(log, ".timeindex", ">qi", (102, 2), (105, 5))
    assert dump(index) == (["timestamp: 102 offset: 102", "timestamp: 105 offset: 105"], [])


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_sanity_check_reports_partial_entry(log, suffix):
    layout = ">ii" if suffix == ".index" else ">qi"
    index = write(log, suffix, layout, (5, 5))
    assert dump(index, index_sanity_check=True) == ([f"{index} passed sanity check."], [])
    index.write_bytes(index.read_bytes() + b"\x00")
    lines, complaints = dump(index, index_sanity_check=True)
    assert lines == []
    assert "corrupt" in complaints[0]


def test_producer_snapshot_is_dumped(tmp_path):
    state = ProducerState()
    batch = encode_message_set(
        [(None, b"v", 7, ())] * 3,
        codec=Codec.GZIP,
        producer_id=42,
        producer_epoch=1,
        base_sequence=10,
        base_offset=100,
    )
    state.update(next(iter_entries(batch)))
    path = tmp_path / f"{103:020d}.snapshot"
    path.write_bytes(state.to_snapshot())
    assert dump(path) == (
        [
            (
                "producerId: 42 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: None "
                "firstSequence: 10 lastSequence: 12 lastOffset: 102 offsetDelta: 2 timestamp: 7"
            )
        ],
        [],
    )
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    lines, complaints = dump(path)
    assert lines == []
    assert "CRC" in complaints[0]


def test_index_of_aborted_transactions_is_dumped(log):
    path = write(log, ".txnindex", ">hqqqq", (0, 42, 100, 105, 106))
    assert dump(path) == (
        ["version: 0 producerId: 42 firstOffset: 100 lastOffset: 105 lastStableOffset: 106"],
        [],
    )


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
def test_file_that_is_not_named_after_offset_is_reported(tmp_path, suffix):
    path = tmp_path / f"backup{suffix}"
    path.write_bytes(b"abc")
    lines, complaints = dump(path)
    assert lines == []
    assert "not named after an offset" in complaints[0]


def test_unknown_files_are_ignored(tmp_path):
    path = tmp_path / "meta.properties"
    path.write_text("version=0\n")
    assert dump(path) == ([], [f"Ignoring unknown file {path}"])
