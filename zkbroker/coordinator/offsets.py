"""Committed offsets and group metadata of one partition of `__consumer_offsets`.

Invariant: the cache is what a reader of the whole partition from its start would end up with: the
last record of each key wins, a null value removes the key. It changes with each append, in the same
step, so the order of the log is the order of the cache; a commit is acknowledged only after
`wait_durable`, so what was acknowledged is in the log under the log's flush policy.

The partition stays small by being rewritten: a new segment is begun, all that is alive is appended
once more in batches, the log is flushed, and only then is everything before the new segment
dropped. Whatever happens in between, reading from the start still ends in the same state; commits
that come meanwhile are appended between the batches, in order.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from zkbroker.errors import StorageError
from zkbroker.protocol.errors import MalformedFrame
from zkbroker.protocol.offsets_topic import (
    GroupKey,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
)
from zkbroker.records import Codec, committed_only, decode_lists, encode_message_set

logger = logging.getLogger(__name__)

TopicPartitionKey: TypeAlias = tuple[str, int]
Key: TypeAlias = OffsetKey | GroupKey
Value: TypeAlias = OffsetValue | GroupValue

_BATCH_BYTES = 64 * 1024  # of a rewrite: some milliseconds of work; a larger record goes alone
_RECORD_OVERHEAD_BYTES = 16  # of a record within a batch; the batch header is shared


class Appended(Protocol):
    """What an append says of where it went."""

    @property
    def last_offset(self) -> int: ...


class PartitionLog(Protocol):
    """The part of a log that is used here (see `zkbroker.log.Log`)."""

    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    def append(self, data: bytearray, *, now_ms: int | None = None) -> Appended: ...
    def wait_durable(self, last_offset: int, timeout_s: float | None = None) -> None: ...
    def read_bytes(self, offset: int, max_bytes: int) -> bytes: ...
    def uncommitted(self, offset: int) -> list[tuple[int, int]]: ...
    def roll(self) -> object: ...
    def flush(self) -> object: ...
    def delete_records_before(self, offset: int) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a partition is written.

    Args:
        codec: what the records are compressed with.
        wait_s: how long a change waits to be as durable as the log's flush policy asks.
        load_bytes: how much is read at once when loading.
        rewrite_min_bytes: a log smaller than this is left alone.
        rewrite_ratio: a log this many times larger than what is alive in it is rewritten.
    """

    codec: Codec = Codec.NONE
    wait_s: float = 5.0
    load_bytes: int = 128 * 1024
    rewrite_min_bytes: int = 4 * 1024 * 1024
    rewrite_ratio: float = 4.0


class OffsetsStore:
    """The offsets and groups of one partition.

    Args:
        log: the partition's log; nobody else appends to it.
        settings: see there.
    """

    def __init__(self, log: PartitionLog, settings: StoreSettings | None = None) -> None:
        self._log = log
        self._settings = settings or StoreSettings()
        self._offsets: dict[str, dict[TopicPartitionKey, OffsetValue]] = {}
        self._groups: dict[str, GroupValue] = {}
        self._live: dict[Key, int] = {}
        self._live_bytes = 0

    # --- reading ----------------------------------------------------------------------------

    def load(self, pause: Callable[[], None] = lambda: None) -> int:
        """Read the partition from its start.

        What was committed in a transaction that was aborted, or never ended, does not count.

        Args:
            pause: called between reads, so that others get their turn.

        Returns:
            How many records were read.

        Raises:
            StorageError: the log cannot be read, or an entry in it is corrupt.
        """
        position, count = self._log.log_start_offset, 0
        while position < self._log.log_end_offset:
            data = self._log.read_bytes(position, self._settings.load_bytes)
            if not data:
                break  # a power cut took the end of the last segment but one
            uncommitted = self._log.uncommitted(position)
            read = decode_lists(data, start_offset=position)
            error, following = read.error, read.next_offset
            if uncommitted and error is None:
                read = decode_lists(committed_only(data, uncommitted), start_offset=position)
            for key, value in zip(read.keys, read.values, strict=True):
                self._apply(key, value)
            count += read.count
            if error is not None or following <= position:
                msg = f"offsets topic unreadable at offset {following}: {error}"
                raise StorageError(msg)
            position = following
            pause()
        return count

    def group_ids(self) -> set[str]:
        """Every group that has metadata or an offset."""
        return {*self._groups, *self._offsets}

    def group(self, group_id: str) -> GroupValue | None:
        """A group's metadata; None if there is none."""
        return self._groups.get(group_id)

    def offsets(self, group_id: str) -> Mapping[TopicPartitionKey, OffsetValue]:
        """All offsets of a group."""
        return self._offsets.get(group_id, {})

    @property
    def live_bytes(self) -> int:
        """About how many bytes the live keys and values take."""
        return self._live_bytes

    # --- writing ----------------------------------------------------------------------------

    def commit(
        self, group_id: str, offsets: Mapping[TopicPartitionKey, OffsetValue], now_ms: int
    ) -> None:
        """Store offsets; returns when they are as durable as the log's flush policy asks.

        Raises:
            StorageError, ProtocolError: nothing was stored, or the disk failed.
        """
        changes = [
            _change(OffsetKey(group_id, topic, partition), value)
            for (topic, partition), value in offsets.items()
        ]
        self.wait_durable(self._append(changes, now_ms))

    def store_group(self, group_id: str, value: GroupValue, now_ms: int) -> int:
        """Store a group's metadata; returns the offset to pass to `wait_durable`.

        Raises:
            StorageError, ProtocolError: nothing was stored.
        """
        return self._append([_change(GroupKey(group_id), value)], now_ms)

    def wait_durable(self, last_offset: int) -> None:
        """Wait until what ends at this offset is as durable as the flush policy asks.

        Raises:
            StorageError: the disk failed.
            RequestTimedOut: it takes longer than `StoreSettings.wait_s`.
        """
        self._log.wait_durable(last_offset, self._settings.wait_s)

    def remove(
        self,
        group_id: str,
        partitions: Iterable[TopicPartitionKey],
        now_ms: int,
        *,
        metadata: bool = False,
    ) -> None:
        """Forget offsets of a group and, with `metadata`, the group itself.

        Raises:
            StorageError, ProtocolError: nothing was removed, or the disk failed.
        """
        changes = [_change(OffsetKey(group_id, *partition), None) for partition in partitions]
        if metadata and group_id in self._groups:
            changes.append(_change(GroupKey(group_id), None))
        if changes:
            self.wait_durable(self._append(changes, now_ms))

    # --- keeping it small -------------------------------------------------------------------

    def wants_rewrite(self) -> bool:
        """Whether most of the log is out of date."""
        size = self._log.size_bytes
        return (
            size >= self._settings.rewrite_min_bytes
            and size >= self._settings.rewrite_ratio * self._live_bytes
        )

    def rewrite(self, now_ms: int, pause: Callable[[], None] = lambda: None) -> None:
        """Append all that is alive once more, then drop everything before.

        Args:
            now_ms: the time of the records written.
            pause: called between batches, so that others get their turn.

        Raises:
            StorageError, ProtocolError: the log could not be written; nothing is lost.
        """
        before_bytes = self._log.size_bytes
        first = self._log.log_end_offset
        self._log.roll()
        for batch in _in_batches(dict(self._live), _BATCH_BYTES):
            changes = [_change(key, value) for key in batch if (value := self._value(key))]
            if changes:
                self._append(changes, now_ms)
            pause()
        self._log.flush()
        self._log.delete_records_before(first)
        logger.info(
            "offsets_topic_rewritten first_offset=%d bytes_before=%d bytes_after=%d keys=%d",
            first,
            before_bytes,
            self._log.size_bytes,
            len(self._live),
        )

    # --- inside -----------------------------------------------------------------------------

    def _append(self, changes: Sequence["_Change"], now_ms: int) -> int:
        data = encode_message_set(
            [(each.key_bytes, each.value_bytes, now_ms, ()) for each in changes],
            codec=self._settings.codec,
        )
        result = self._log.append(bytearray(data), now_ms=now_ms)
        for each in changes:
            self._set(each.key, each.value, len(each.key_bytes) + len(each.value_bytes or b""))
        return result.last_offset

    def _apply(self, key_bytes: bytes | None, value_bytes: bytes | None) -> None:
        """Take a record that was read from the log."""
        try:
            key = decode_key(key_bytes or b"")
            if key is None:
                return  # of a later version than ours
            value: Value | None = None
            if value_bytes is not None:
                decode = decode_offset if isinstance(key, OffsetKey) else decode_group
                value = decode(value_bytes)
        except MalformedFrame as error:
            logger.warning("offsets_topic_record_skipped key=%r reason=%s", key_bytes, error)
            return
        self._set(key, value, len(key_bytes or b"") + len(value_bytes or b""))

    def _set(self, key: Key, value: Value | None, size_bytes: int) -> None:
        if isinstance(key, OffsetKey):
            offsets = self._offsets.setdefault(key.group, {})
            if isinstance(value, OffsetValue):
                offsets[key.topic, key.partition] = value
            else:
                offsets.pop((key.topic, key.partition), None)
            if not offsets:
                del self._offsets[key.group]
        elif isinstance(value, GroupValue):
            self._groups[key.group] = value
        else:
            self._groups.pop(key.group, None)
        self._live_bytes -= self._live.pop(key, 0)
        if value is not None:
            self._live[key] = size_bytes + _RECORD_OVERHEAD_BYTES
            self._live_bytes += size_bytes + _RECORD_OVERHEAD_BYTES

    def _value(self, key: Key) -> Value | None:
        if isinstance(key, OffsetKey):
            return self.offsets(key.group).get((key.topic, key.partition))
        return self._groups.get(key.group)


@dataclass(frozen=True, slots=True)
class _Change:
    """A record to be appended, in both forms; without a value it removes the key."""

    key: Key
    value: Value | None
    key_bytes: bytes
    value_bytes: bytes | None


def _change(key: Key, value: Value | None) -> _Change:
    value_bytes = None
    if isinstance(value, OffsetValue):
        value_bytes = encode_offset(value)
    elif isinstance(value, GroupValue):
        value_bytes = encode_group(value)
    return _Change(key, value, encode_key(key), value_bytes)


def _in_batches(sizes: Mapping[Key, int], limit_bytes: int) -> Iterator[list[Key]]:
    batch: list[Key] = []
    filled = 0
    for key, size in sizes.items():
        if batch and filled + size > limit_bytes:
            yield batch
            batch, filled = [], 0
        batch.append(key)
        filled += size
    if batch:
        yield batch
