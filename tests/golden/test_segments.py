"""Segments of genuine brokers are decoded and encoded to the same bytes."""

import re
from pathlib import Path

import pytest

from zkbroker.records import Codec, decode_entry, iter_entries, iter_records
from zkbroker.records.batch import build_batch
from zkbroker.records.messages import build_message_set, unsent

SEGMENTS = Path(__file__).parent / "data" / "segments"
LOGS_230 = sorted((SEGMENTS / "kafka-2.3.0").glob("*/*.log"))
LOGS_082 = sorted((SEGMENTS / "kafka-0.8.2.2").glob("*/*.log"))


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem.lstrip('0') or '0'}"


def test_golden_segments_are_complete():
    assert len(LOGS_230) == 28
    assert len(LOGS_082) == 10


@pytest.mark.parametrize("log", LOGS_230 + LOGS_082, ids=name)
def test_golden_entries_are_complete_with_valid_crc(log):
    data = log.read_bytes()
    assert sum(entry.size for entry in iter_entries(data, verify_crc=True)) == len(data)


@pytest.mark.parametrize("log", LOGS_230, ids=name)
def test_offsets_of_golden_segment_match_dump(log):
    data = log.read_bytes()
    dump = log.with_suffix(".dump.txt").read_text("utf-8")
    found = [r.offset for entry in iter_entries(data) for r in decode_entry(data, entry)]
    assert found == [
        int(offset) for offset in re.findall(r"^\| offset: (\d+) ", dump, re.MULTILINE)
    ]


@pytest.mark.parametrize("log", LOGS_230 + LOGS_082, ids=name)
def test_uncompressed_golden_entries_round_trip(log):
    data = log.read_bytes()
    for entry in iter_entries(data):
        records = decode_entry(data, entry)
        if entry.codec or entry.is_control:
            continue
        append_time = entry.max_timestamp if entry.timestamp_type == 1 else None
        if entry.magic == 2:
            again = build_batch(
                unsent(records),
                base_offset=entry.base_offset,
                timestamp_type=entry.timestamp_type,
                append_time=append_time,
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                base_sequence=entry.base_sequence,
                partition_leader_epoch=entry.partition_leader_epoch,
                is_transactional=entry.is_transactional,
            )
        else:
            again = build_message_set(
                unsent(records), entry.magic, base_offset=entry.base_offset, append_time=append_time
            )
        assert again == data[entry.position : entry.position + entry.size]


def test_old_segments_have_same_records_in_every_codec():
    sets = {}
    for codec in (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        data = (SEGMENTS / f"kafka-0.8.2.2/g08-{codec.label}-0/{0:020d}.log").read_bytes()
        sets[codec] = [(r.offset, r.key, r.value) for r in iter_records(data)]
    assert len(sets[Codec.NONE]) == 20
    assert all(found == sets[Codec.NONE] for found in sets.values())
