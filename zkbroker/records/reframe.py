"""Converts a stored batch of magic 2 into the form that a producer sends; its records stay.

    kept        attributes' codec and timestamp type, timestamps, count, records (compressed or not)
    written     base offset 0, leader epoch -1, producer id, epoch and sequence, CRC
    cleared     the transactional bit of the source; set again for a transaction of the sender

Invariant: only batches that `may_reframe` allows are reframed: a broker accepts them, and readers
find the same records in them as in the source.
"""

from zkbroker.records.entries import Data, seal_batch
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

    It cannot if it is a control batch, has gaps from compaction, or has the log's append time: then
    its records hold other timestamps than readers see.

    Args:
        entry: its head.
        attributes: their lower byte.
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
    """Return a batch of magic 2 for sending; its CRC is computed, that of `batch` is not checked.

    Args:
        batch: one whole entry that `may_reframe` allows.
        producer_id: of an idempotent producer, with epoch and sequence; -1 without.
        producer_epoch: see `producer_id`.
        base_sequence: of the first record.
        is_transactional: part of a transaction of the sender.
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
