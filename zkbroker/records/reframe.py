"""Conversion of a stored batch of magic 2 into the form that producers send; its records stay.

    kept        attributes' codec and timestamp type, timestamps, count, records (compressed or not)
    written     base offset 0, leader epoch -1, producer id, epoch and sequence, CRC
    replaced    the transactional bit: the source's transaction does not count, only the sender's

Invariant: only batches that `may_reframe` accepts are reframed: a broker accepts them, and a reader
finds the same records as in the source.
"""

from zkbroker.records.batch import seal_batch
from zkbroker.records.entries import Data
from zkbroker.records.layout import (
    ATTRIBUTES_V2_LOW_AT,
    CODEC_MASK,
    INT32,
    LEADER_EPOCH_AT,
    OFFSET,
    PRODUCER,
    PRODUCER_AT,
    TRANSACTIONAL_BIT,
)
from zkbroker.records.record import LOG_APPEND_TIME, EntryInfo


def may_reframe(entry: EntryInfo, attributes: int) -> bool:
    """Whether a stored batch can be sent with its records unchanged.

    A control batch, a batch with holes from compaction and one with LogAppendTime cannot: the
    records of the last have other timestamps than a reader sees.

    Args:
        entry: its head.
        attributes: the lower byte of its attributes.
    """
    return (
        entry.magic == 2
        and not entry.is_control
        and entry.record_count == entry.last_offset - entry.base_offset + 1
        and entry.timestamp_type != LOG_APPEND_TIME
        and not attributes & ~(CODEC_MASK | TRANSACTIONAL_BIT)
    )


def reframe(
    batch: Data,
    *,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """Return a batch of magic 2 for sending, with a new CRC; the CRC of `batch` is not checked.

    Args:
        batch: one whole entry that `may_reframe` accepts.
        producer_id: of an idempotent producer, with epoch and sequence; else -1.
        producer_epoch: see `producer_id`.
        base_sequence: of the first record.
        is_transactional: part of the sender's transaction.
    """
    out = bytearray(batch)
    OFFSET.pack_into(out, 0, 0)
    INT32.pack_into(out, LEADER_EPOCH_AT, -1)
    out[ATTRIBUTES_V2_LOW_AT] &= ~TRANSACTIONAL_BIT & 0xFF
    if is_transactional:
        out[ATTRIBUTES_V2_LOW_AT] |= TRANSACTIONAL_BIT
    PRODUCER.pack_into(out, PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    seal_batch(out)
    return bytes(out)
