"""Stored batches in the form in which a producer sends them."""

import pytest

from zkbroker.records import (
    Codec,
    control_batch,
    decode_lists,
    encode_message_set,
    iter_entries,
    may_reframe,
    reframe,
    set_offsets,
)
from zkbroker.records.batch import build_batch
from zkbroker.records.layout import ATTRIBUTES_V2_LOW_AT

RECORDS = [
    (b"k", b"v" * 50, 1_700_000_000_000, (("h", b"1"),)),
    (None, b"w", 1_700_000_000_005, ()),
    (b"k", None, 1_700_000_000_001, ()),
]
STORED = {"producer_id": 77, "producer_epoch": 3, "base_sequence": 1000}
SENDER = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 42}


def head(batch: bytes):
    (entry,) = iter_entries(batch, verify_crc=True)
    return entry, batch[ATTRIBUTES_V2_LOW_AT]


@pytest.mark.parametrize("codec", list(Codec))
def test_reframe_replaces_producer_and_keeps_records(codec):
    stored = bytearray(encode_message_set(RECORDS, codec=codec, **STORED, is_transactional=True))
    set_offsets(stored, 0, 123_456, 9)
    assert may_reframe(*head(bytes(stored)))
    sent = reframe(stored, **SENDER)
    entry, attributes = head(sent)  # checks the CRC
    assert (entry.base_offset, entry.partition_leader_epoch) == (0, -1)
    assert (entry.producer_id, entry.producer_epoch, entry.base_sequence) == (5, 1, 42)
    assert not entry.is_transactional
    assert attributes == codec
    assert sent[61:] == bytes(stored[61:])
    assert sent == encode_message_set(RECORDS, codec=codec, **SENDER)


def test_reframe_without_producer_id_gives_plain_batch():
    stored = encode_message_set(RECORDS, **STORED)
    assert reframe(stored) == encode_message_set(RECORDS)


@pytest.mark.parametrize("was_transactional", [True, False])
def test_reframe_may_make_batch_transactional(was_transactional):
    stored = encode_message_set(RECORDS, **STORED, is_transactional=was_transactional)
    sent = reframe(stored, **SENDER, is_transactional=True)
    assert head(sent)[0].is_transactional
    assert sent == encode_message_set(RECORDS, **SENDER, is_transactional=True)


def test_batches_visibly_changed_by_reframe_are_refused():
    control = control_batch(1, producer_id=1, producer_epoch=0, timestamp_ms=0)
    assert not may_reframe(*head(control))
    appended = build_batch(RECORDS, timestamp_type=1, append_time=1_800_000_000_000)
    assert decode_lists(appended).timestamps == [1_800_000_000_000] * 3
    assert not may_reframe(*head(appended))
    entry, attributes = head(encode_message_set(RECORDS))
    assert not may_reframe(entry._replace(last_offset=5), attributes)  # compaction left holes
    assert not may_reframe(entry, attributes | 0x40)
