"""Our conversions for older readers give the entries that a genuine 2.3.0 broker sent them."""

import json
from pathlib import Path

import pytest

from zkbroker.protocol import ApiKey, decode_response
from zkbroker.records import convert, decode_lists, iter_entries, iter_records, offset_after

WIRE = Path(__file__).parent / "data" / "wire" / "kafka-2.3.0.jsonl"


def fetched(version: int) -> bytes:
    for line in WIRE.read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["name"].startswith(f"Fetch v{version} from 0"):
            frame = memoryview(bytes.fromhex(row["response"]))
            _, response = decode_response(ApiKey.FETCH, version, frame)
            return bytes(response.topics[0].partitions[0].records)
    raise AssertionError(version)


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_converted_entries_equal_genuine_ones(version, magic):
    genuine = fetched(version)
    ours = convert(fetched(4), magic)
    theirs = list(iter_entries(genuine, verify_crc=True))
    mine = list(iter_entries(ours, verify_crc=True))[: len(theirs)]
    assert len(theirs) > 20
    for one, other in zip(theirs, mine, strict=True):
        for field in ("magic", "codec", "last_offset", "max_timestamp"):
            assert getattr(one, field) == getattr(other, field)
        if not one.codec:
            assert (
                genuine[one.position : one.position + one.size]
                == ours[other.position : other.position + other.size]
            )
    decoded = list(iter_records(genuine))
    assert list(iter_records(ours))[: len(decoded)] == decoded


@pytest.mark.parametrize("version", range(10))
def test_end_of_genuine_answer_is_a_partial_entry(version):
    # Versions 0 and 1 end in a filler of offset -1, 2 and 3 in an incomplete message.
    data = fetched(version)
    lists = decode_lists(data)
    assert lists.error is None
    assert lists.offsets == list(range(lists.count))
    assert offset_after(data) == lists.next_offset == lists.count
