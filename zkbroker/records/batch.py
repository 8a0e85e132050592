"""Builds record batches, magic 2. `layout` has the diagram.

Invariant: a built batch is consistent: counts, maximum timestamp and CRC agree with its records.
"""

from collections.abc import Sequence

from zkbroker.records import kernels
from zkbroker.records.codec import Codec, compress
from zkbroker.records.entries import seal_batch
from zkbroker.records.layout import (
    BATCH,
    BATCH_HEADER_BYTES,
    CONTROL_BIT,
    ENTRY_HEADER_BYTES,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from zkbroker.records.record import Unsent


def build_batch(
    records: Sequence[Unsent],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: int = 0,
    append_time: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    partition_leader_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """Build one batch from at least one record, offsets dense from `base_offset`.

    Args:
        records: key, value, timestamp in ms, headers.
        base_offset: of the first.
        codec: of the payload.
        level: of the codec.
        timestamp_type: 1 for LogAppendTime, with `append_time` as the batch's maximum.
        append_time: in ms.
        producer_id: of an idempotent producer, with epoch and sequence; else -1.
        producer_epoch: see `producer_id`.
        base_sequence: see `producer_id`.
        partition_leader_epoch: -1 in a producer's batch; the broker assigns it.
        is_transactional: part of a transaction.
        is_control: the record is a transaction marker.
    """
    base_timestamp = records[0][2]
    out, newest = kernels.encode_records(records, base_timestamp)
    if codec:
        payload = compress(codec, memoryview(out)[BATCH_HEADER_BYTES:], level=level)
        out[BATCH_HEADER_BYTES:] = payload
    max_timestamp = newest if append_time is None else append_time
    attributes = codec | (TIMESTAMP_TYPE_BIT if timestamp_type == 1 else 0)
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    count = len(records)
    BATCH.pack_into(
        out,
        0,
        base_offset,
        len(out) - ENTRY_HEADER_BYTES,
        partition_leader_epoch,
        2,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    seal_batch(out)
    return bytes(out)


def head_plain_batch(batch: memoryview, count: int, timestamp: int) -> None:
    """Write the head of an uncompressed batch without a producer id, before existing records.

    Args:
        batch: room for the head, and the records, offset deltas 0, 1, 2 ...
        count: the number of records.
        timestamp: of all of them, in ms.
    """
    length = len(batch) - ENTRY_HEADER_BYTES
    last, none = count - 1, -1
    BATCH.pack_into(
        batch, 0, 0, length, none, 2, 0, 0, last, timestamp, timestamp, none, none, none, count
    )
    seal_batch(batch)
