"""Batches that a caller encoded: the bytes sent, and reports of their outcome."""

import pytest

from zkbroker.errors import UnsupportedForMessageFormat
from zkbroker.producer import EncodedBatch, MessageTooLarge
from zkbroker.producer.accumulator import Accumulator
from zkbroker.records import Codec, decode_lists, encode_message_set, iter_entries

RECORDS = [(b"%d" % n, b"value" * n, 1_700_000_000_000 + n, ()) for n in range(5)]


def values(data: bytes) -> list[bytes | None]:
    lists = decode_lists(data)
    assert lists.error is None
    return lists.values


def stored(codec: Codec = Codec.LZ4, reported: list | None = None) -> EncodedBatch:
    data = encode_message_set(
        RECORDS, codec=codec, producer_id=9, producer_epoch=0, base_sequence=0
    )
    done = [].append if reported is None else reported.append
    return EncodedBatch("t", 1, done, stored=data, magic=2, count=5, codec=codec)


def test_stored_batch_is_reframed_with_new_sequence_numbers():
    batch = stored()
    batch.number(3, 1, 70)
    sent = batch.build(2, Codec.GZIP, None)
    expected = encode_message_set(
        RECORDS, codec=Codec.LZ4, producer_id=3, producer_epoch=1, base_sequence=70
    )
    assert sent == expected
    assert batch.build(2, Codec.GZIP, None) is sent  # a retry sends the same bytes


@pytest.mark.parametrize("magic_of", [2, -1])
def test_encoded_batch_is_transactional_with_stored_bytes_or_records(magic_of):
    batch = stored() if magic_of == 2 else EncodedBatch("t", 1, [].append, records=RECORDS)
    batch.number(3, 1, 70)
    sent = batch.build(2, Codec.NONE, None, transactional=True)
    (entry,) = iter_entries(sent, verify_crc=True)
    assert entry.is_transactional
    assert values(sent) == [record[1] for record in RECORDS]


def test_older_message_format_keeps_codec():
    sent = stored(Codec.SNAPPY).build(0, Codec.NONE, None)
    (entry,) = iter_entries(sent, verify_crc=True)
    assert (entry.magic, entry.codec) == (0, Codec.SNAPPY)
    assert values(sent) == [record[1] for record in RECORDS]


@pytest.mark.parametrize(("magic", "version"), [(2, 6), (1, 7)])
def test_zstd_is_replaced_where_broker_does_not_support_it(magic, version):
    sent = stored(Codec.ZSTD).build(magic, Codec.NONE, None, produce_version=version)
    entry = next(iter_entries(sent, verify_crc=True))
    assert (entry.magic, entry.codec) == (magic, Codec.GZIP)
    assert values(sent) == [record[1] for record in RECORDS]


def test_records_with_headers_are_refused_by_older_format():
    data = encode_message_set([(b"k", b"v", 1, (("h", b"1"),))])
    batch = EncodedBatch("t", 1, [].append, stored=data, magic=2, count=1)
    with pytest.raises(UnsupportedForMessageFormat):
        batch.build(1, Codec.NONE, None)


def test_split_batch_reports_its_outcome_once():
    reported: list[EncodedBatch] = []
    batch = stored(reported=reported)
    batch.number(3, 1, 70)
    first, second = batch.split()
    assert [(len(each), each.base_sequence) for each in (first, second)] == [(2, 70), (3, 72)]
    assert first.size + second.size == batch.size
    sent = first.build(2, Codec.NONE, None) + second.build(2, Codec.NONE, None)
    assert values(sent) == [record[1] for record in RECORDS]
    third, fourth = second.split()
    for each in (first, third):
        each.succeed(10, -1)
        each.wake()
        assert reported == []
    error = MessageTooLarge("too large")
    fourth.fail(error)
    fourth.wake()
    assert reported == [batch]
    assert (batch.error, batch.failed) == (error, len(fourth))


def test_appended_batch_is_sent_after_earlier_batches_of_partition():
    accumulator = Accumulator(linger_s=5, batch_messages=10, batch_max_bytes=1000, max_in_flight=5)
    one, two = stored(), stored()
    accumulator.append(two, 1.0)  # appended first, so sent first
    accumulator.append(one, 2.0)
    (queue,) = accumulator.ready(2.0, hurry=False)
    assert accumulator.take(queue) is two
    accumulator.put_back(two)
    assert list(accumulator.waiting()) == [two, one]


@pytest.mark.parametrize(
    ("had", "asked", "sent"),
    [
        (Codec.SNAPPY, Codec.GZIP, Codec.SNAPPY),
        (Codec.LZ4, Codec.NONE, Codec.GZIP),
        (Codec.LZ4, Codec.SNAPPY, Codec.SNAPPY),
    ],
)
def test_decoded_returns_records_and_supported_codec(had, asked, sent):
    records, codec = stored(had).decoded(asked, (Codec.NONE, Codec.GZIP, Codec.SNAPPY))
    assert (codec, [record[1] for record in records]) == (
        sent,
        [value for _, value, _, _ in RECORDS],
    )
