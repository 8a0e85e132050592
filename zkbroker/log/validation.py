"""Validation of appended sets, in addition to that of `zkbroker.records`.

Invariant: a set is validated as a whole before any of it is written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zkbroker.config.log import LogConfig
from zkbroker.errors import CorruptMessage, ErrorCode, ProtocolError
from zkbroker.log.segments.entries import first_offset
from zkbroker.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    AppendPolicy,
    Codec,
    EntryInfo,
    Marker,
    PreparedSet,
    RecordLists,
    decode_lists,
    iter_entries,
    read_marker,
)

Data = bytes | bytearray | memoryview


def append_policy(config: LogConfig, *, control: bool = False) -> AppendPolicy:
    """Return the rules of a topic's settings for appended messages, or for a marker."""
    codec = None
    if config.compression_type != "producer" and not control:
        codec = Codec.from_name(config.compression_type)
    timed_here = config.timestamp_type == "LogAppendTime"
    return AppendPolicy(
        max_message_bytes=config.max_message_bytes,
        timestamp_type=LOG_APPEND_TIME if timed_here else CREATE_TIME,
        max_timestamp_difference_ms=config.timestamp_difference_max_ms,
        message_format=config.pinned_magic,
        codec=codec,
        allow_control=control,
    )


def lacks_key(data: Data, offload: Callable[..., RecordLists] | None) -> bool:
    """Whether a message of a set has no key; `offload` decodes the set in another thread."""
    lists = decode_lists(data) if offload is None else offload(decode_lists, data)
    return None in lists.keys


def markers_in(prepared: PreparedSet) -> Mapping[int, Marker | None]:
    """Return the markers of a set by offset.

    Raises:
        CorruptMessage: a marker cannot be read.
    """
    view = memoryview(prepared.data)
    return {
        each.base_offset: read_marker(view[each.position : each.position + each.size])
        for each in prepared.batches
        if each.is_control
    }


@dataclass(frozen=True, slots=True)
class LeaderSet:
    """Validated entries of a leader's log, in parts that each fit one segment.

    Args:
        parts: in order; empty if not even one entry is whole.
        epochs: where the leader epoch of the entries changes, in order: the epoch (-1 if they carry
            none), and the first offset of its first entry.
        count: number of messages, computed from offsets: gaps count as well.
    """

    parts: list[PreparedSet]
    epochs: list[tuple[int, int]]
    count: int


def check_leader_set(data: Data, log_end_offset: int, segment_bytes: int) -> LeaderSet:
    """Validate entries that a follower fetched; bytes and offsets stay unchanged.

    Args:
        data: entries; an incomplete last one is left out.
        log_end_offset: of the follower.
        segment_bytes: largest size of a part; a larger entry is a part of its own.

    Raises:
        CorruptMessage: an entry is damaged, or offsets go back.
        ProtocolError: UNKNOWN_SERVER_ERROR (-1), the first offset is below the log end offset.
    """
    view = memoryview(data)
    epochs: list[tuple[int, int]] = []
    parts: list[PreparedSet] = []
    expected, count, epoch = log_end_offset, 0, None
    pending: list[tuple[EntryInfo, int]] = []
    for info in iter_entries(view, verify_crc=True):
        first = info.base_offset
        if info.record_count < 0:
            first = first_offset(bytes(view[info.position : info.position + info.size]))
        if first < expected:
            text = f"the leader sent offset {first} where {expected} is next"
            if not pending and not parts:
                raise ProtocolError(text, code=ErrorCode.UNKNOWN_SERVER_ERROR)
            raise CorruptMessage(text)
        expected = info.last_offset + 1
        count += expected - first
        of_entry = info.partition_leader_epoch if info.magic == 2 else -1
        if of_entry != epoch:
            epoch = of_entry
            epochs.append((of_entry, first))
        if pending and info.position + info.size - pending[0][0].position > segment_bytes:
            parts.append(_part(view, pending))
            pending = []
        pending.append((info, first))
    if pending:
        parts.append(_part(view, pending))
    return LeaderSet(parts, epochs, count)


def _part(view: memoryview, entries: list[tuple[EntryInfo, int]]) -> PreparedSet:
    start = entries[0][0].position
    end = entries[-1][0].position + entries[-1][0].size
    newest = max((info for info, _ in entries), key=lambda info: info.max_timestamp)
    return PreparedSet(
        view[start:end],
        entries[0][1],
        entries[-1][0].last_offset,
        entries[-1][0].last_offset - entries[0][1] + 1,
        newest.max_timestamp,
        newest.last_offset,
        [info._replace(position=info.position - start) for info, _ in entries if info.magic == 2],
        max(info.magic for info, _ in entries),
    )
