"""Checks plain sets of producers and assigns their offsets in one step, in plain Python.

A set is plain if it is one batch of magic 2 that is neither compressed, transactional nor a control
batch, or uncompressed messages of one older magic. Only offsets change in it and, in a batch, the
leader epoch; no checksum covers them.
"""

from typing import TypeAlias

from zkbroker.errors import CorruptMessage
from zkbroker.records.entries import check_crc, read_head, set_offsets
from zkbroker.records.layout import BATCH_HEADER_BYTES, MAGIC_AT
from zkbroker.records.portable.batch import scan_records
from zkbroker.records.portable.messages import assign_messages
from zkbroker.records.record import NO_TIMESTAMP, EntryInfo

Placed: TypeAlias = tuple[int, int, int, int, EntryInfo | None]


def place_plain(
    data: memoryview,
    next_offset: int,
    max_bytes: int,
    earliest: int,
    latest: int,
    epoch: int,
    magics: int,
) -> Placed | None:
    """Verify a plain set and assign its offsets in place.

    Args:
        data: the whole set, writable.
        next_offset: for its first message.
        max_bytes: largest size of an entry.
        earliest: the set is not plain if a timestamp is lower, other than -1.
        latest: the set is not plain if a timestamp is higher.
        epoch: the leader epoch, for a batch.
        magics: the accepted magics, bit 0 for magic 0 and so on.

    Returns:
        The number of messages, the largest timestamp, the index of the first message with it (-1
        without timestamps), the magic, and the head of a batch that has a producer id. None, with
        nothing changed, for a set that is not plain, for whatever reason.
    """
    magic = data[MAGIC_AT] if len(data) > MAGIC_AT else 3
    if magic > 2 or not magics >> magic & 1:
        return None
    if magic == 2:
        return _batch(data, next_offset, max_bytes, earliest, latest, epoch)
    copy = memoryview(bytearray(data))
    reached, count, newest, newest_at = assign_messages(
        copy, 0, magic, next_offset, max_bytes, earliest, latest, None
    )
    if not count or reached < len(data):
        return None
    data[:] = copy
    return count, newest, newest_at if newest > NO_TIMESTAMP else -1, magic, None


def _batch(
    data: memoryview, next_offset: int, max_bytes: int, earliest: int, latest: int, epoch: int
) -> Placed | None:
    if not BATCH_HEADER_BYTES <= len(data) <= max_bytes:
        return None
    try:
        entry = read_head(data, sent=True)
        if (
            entry.size != len(data)
            or entry.codec
            or entry.timestamp_type
            or entry.is_transactional
            or entry.is_control
            or entry.record_count < 1
            or entry.last_offset != entry.record_count - 1
            or (entry.producer_id >= 0 and entry.base_sequence < 0)
        ):
            return None
        check_crc(data, entry)
        oldest, newest, newest_at, dense = scan_records(
            data[BATCH_HEADER_BYTES:],
            entry.record_count,
            entry.record_count - 1,
            entry.base_timestamp,
        )
    except CorruptMessage:
        return None
    if (
        not dense
        or newest != entry.max_timestamp
        or (oldest != NO_TIMESTAMP and oldest < earliest)
        or (newest != NO_TIMESTAMP and newest > latest)
    ):
        return None
    set_offsets(data, 0, next_offset, epoch)
    placed = None
    if entry.producer_id >= 0:
        last = next_offset + entry.last_offset
        placed = entry._replace(
            base_offset=next_offset, last_offset=last, partition_leader_epoch=epoch
        )
    return entry.record_count, newest, newest_at if newest > NO_TIMESTAMP else -1, 2, placed
