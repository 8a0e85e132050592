"""The states of the records of a fetched message set."""

import pytest

from zkbroker.console.entries import stored_records
from zkbroker.errors import CorruptMessage
from zkbroker.records import Codec, encode_message_set
from zkbroker.records.batch import build_batch
from zkbroker.records.transactions import ABORT, COMMIT, control_batch


def batch(offset, values, producer=None, **more):
    records = [(None, value.encode(), 5, ()) for value in values]
    if producer is not None:
        more |= {"producer_id": producer, "producer_epoch": 0, "is_transactional": True}
    return build_batch(records, base_offset=offset, **more)


def end(offset, kind, producer):
    return control_batch(
        kind, producer_id=producer, producer_epoch=0, timestamp_ms=9, base_offset=offset
    )


def states(data, **more):
    return [
        (each.offset, (each.value or b"").decode(), each.state)
        for each in stored_records(bytes(data), 0, more.pop("start", 0), **more)
    ]


def test_states_of_aborted_records_and_markers():
    data = batch(0, ["a", "b"], 7) + batch(2, ["plain"]) + end(3, ABORT, 7) + batch(4, ["c"], 7)
    assert states(data, aborted=[(7, 0)]) == [
        (0, "a", "aborted"),
        (1, "b", "aborted"),
        (2, "plain", "committed"),
        (3, "abort", "control"),
        (4, "c", "committed"),
    ]


def test_marker_in_the_response_decides_state_after_stable_offset():
    data = (
        batch(0, ["before"], 1)
        + batch(1, ["open"], 2)
        + batch(2, ["kept"], 3)
        + batch(3, ["left"], 4)
        + batch(4, ["plain"])
        + end(5, COMMIT, 3)
        + end(6, ABORT, 4)
    )
    found = " ".join(state for *_, state in states(data, stable=1))
    assert found == "committed open committed aborted committed control control"


def test_start_within_a_batch():
    assert states(batch(5, ["a", "b", "c"]), start=6) == [
        (6, "b", "committed"),
        (7, "c", "committed"),
    ]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
def test_message_sets_of_magic_0(codec):
    data = bytes(
        encode_message_set([(b"k", b"v", -1, ())] * 2, magic=0, codec=Codec.from_name(codec))
    )
    found = list(stored_records(data, 3, 0))
    assert [(each.partition, each.magic, each.compression, each.time_ms) for each in found] == [
        (3, 0, codec, -1)
    ] * 2


def test_corrupt_batch_is_one_record_and_later_batches_are_read():
    data = bytearray(batch(0, ["a", "b"]) + batch(2, ["c"]))
    data[70] ^= 0xFF
    found = list(stored_records(bytes(data), 0, 0))
    assert [(each.offset, each.state) for each in found] == [(0, "corrupt"), (2, "committed")]
    assert found[0].error


def test_bytes_that_are_no_entry_raise_after_earlier_records():
    found = []
    with pytest.raises(CorruptMessage):
        found.extend(stored_records(bytes(batch(0, ["a"])) + b"\xff" * 200, 0, 0))
    assert [each.offset for each in found] == [0]


def test_partial_entry_at_the_end_is_ignored():
    assert states(batch(0, ["a"]) + batch(1, ["b"])[:-3]) == [(0, "a", "committed")]
