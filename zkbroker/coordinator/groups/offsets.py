"""Committed offsets and group metadata of one partition of `__consumer_offsets`.

Invariant: the cache equals the result of reading the whole partition from its start: the last
record of each key wins, a null value removes the key. It changes with each append, in the same
step, so log and cache have the same order. A commit is acknowledged only after `wait_durable`, so
every acknowledged commit is in the log under the log's flush policy. The log's cleaner keeps the
partition small without changing the result.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from zkbroker.coordinator.stored_log import PartitionLog, read_all
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
from zkbroker.records import (
    COMMIT,
    Codec,
    EntryInfo,
    RecordLists,
    decode_lists,
    encode_message_set,
    iter_entries,
    read_marker,
)
from zkbroker.records.record import Unsent
from zkbroker.runtime import Lock, Park, unparked
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

Key: TypeAlias = OffsetKey | GroupKey
Value: TypeAlias = OffsetValue | GroupValue
Change: TypeAlias = tuple[Key, Value | None]
"""A record to append; without a value it removes the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """How a partition is written.

    Args:
        codec: compresses the records.
        wait_s: how long a change waits to be as durable as the log's flush policy requires.
        load_bytes: how much to read at once when loading.
    """

    codec: Codec = Codec.NONE
    wait_s: float = 5.0
    load_bytes: int = 128 * 1024


class OffsetsStore:
    """The offsets and groups of one partition.

    Args:
        log: the partition's log; only this object appends to it.
        settings: how to read and write it.
    """

    def __init__(self, log: PartitionLog, settings: StoreSettings | None = None) -> None:
        self._log = log
        self._settings = settings or StoreSettings()
        self._offsets: dict[str, dict[PartitionKey, OffsetValue]] = {}
        self._groups: dict[str, GroupValue] = {}
        self._pending: dict[int, dict[OffsetKey, _Pending]] = {}
        """Producer id → offsets of its open transaction; later commits of a key replace them."""

    @property
    def lock(self) -> Lock:
        """While it is held, no other task changes the offsets or the groups."""
        return self._log.lock

    # --- reading ----------------------------------------------------------------------------

    def load(self, pause: Callable[[], None] = lambda: None) -> int:
        """Read the partition from its start.

        Offsets of a transaction take effect at its COMMIT marker; those of an open one stay
        pending.

        Args:
            pause: called between reads, so that others get their turn.

        Returns:
            the number of records.

        Raises:
            StorageError: the log cannot be read, or an entry in it is corrupt.
        """
        # An earlier load may have failed half-way.
        self._offsets, self._groups, self._pending = {}, {}, {}
        count = 0
        for data, read in read_all(self._log, self._settings.load_bytes, pause):
            entries = list(iter_entries(data)) if read.error is None else []
            if any(each.is_transactional for each in entries):
                self._load_entries(data, entries)
            else:
                self._load_lists(read)
            count += read.count
        return count

    def _load_lists(self, read: RecordLists, pending_of: EntryInfo | None = None) -> None:
        for key, value in zip(read.keys, read.values, strict=True):
            self._apply(key, value, pending_of)

    def _load_entries(self, data: bytes, entries: Iterable[EntryInfo]) -> None:
        view = memoryview(data)
        for entry in entries:
            part = view[entry.position : entry.position + entry.size]
            if entry.is_control:
                marker = read_marker(part)
                if marker is not None:
                    self.end_transaction(
                        entry.producer_id, entry.base_offset, commit=marker.kind == COMMIT
                    )
            else:
                read = decode_lists(part, start_offset=entry.base_offset)
                self._load_lists(read, entry if entry.is_transactional else None)

    def group_ids(self) -> set[str]:
        """Every group that has metadata or an offset."""
        return {*self._groups, *self._offsets}

    def group(self, group_id: str) -> GroupValue | None:
        """A group's metadata; None if there is none."""
        return self._groups.get(group_id)

    def offsets(self, group_id: str) -> Mapping[PartitionKey, OffsetValue]:
        """All offsets of a group."""
        return self._offsets.get(group_id, {})

    # --- writing ----------------------------------------------------------------------------

    def commit(
        self,
        group_id: str,
        offsets: Mapping[PartitionKey, OffsetValue],
        now_ms: int,
    ) -> int:
        """Store offsets; returns the offset to pass to `wait_durable`.

        Raises:
            StorageError, ProtocolError: nothing was stored.
        """
        return self._append(_offset_changes(group_id, offsets), now_ms)

    def begin_verification(self, producer_id: int, producer_epoch: int) -> Any:
        """Begin to verify that a transaction may begin here; None if it has already begun.

        Raises:
            ProtocolError, StorageError: another broker leads the partition, or the disk failed.
        """
        return self._log.begin_verification(producer_id, producer_epoch)

    def commit_pending(
        self,
        group_id: str,
        producer: tuple[int, int],
        offsets: Mapping[PartitionKey, OffsetValue],
        now_ms: int,
        verification: Any,
        park: Park = unparked,
    ) -> None:
        """Store offsets that take effect once the transaction of `producer` is committed.

        A producer is an id and an epoch; `verification` is the result of `begin_verification`.

        Raises:
            ProtocolError, StorageError: nothing was stored, or it is unknown whether it was.
        """
        changes = _offset_changes(group_id, offsets)
        data = encode_message_set(
            _records(changes, now_ms),
            codec=self._settings.codec,
            producer_id=producer[0],
            producer_epoch=producer[1],
            # Every such batch has sequence 0: the producer's own sequences belong to its topics.
            base_sequence=0,
            is_transactional=True,
        )
        result = self._log.append(bytearray(data), now_ms=now_ms, verification=verification)
        first = result.last_offset - len(changes) + 1
        for key, value in changes:
            self._set_pending(producer[0], key, value, first)
        self.wait_durable(result.last_offset, park)

    def end_transaction(self, producer_id: int, marker_offset: int, *, commit: bool) -> None:
        """Apply or drop the offsets that a producer committed before its marker."""
        pending = self._pending.get(producer_id)
        if pending is None:
            return
        ended = [key for key, each in pending.items() if each.batch_offset < marker_offset]
        for key in ended:
            each = pending.pop(key)
            if not commit:
                continue
            # A later commit of another producer wins, in whatever order the markers come.
            for others in self._pending.values():
                if key in others and others[key].batch_offset < each.batch_offset:
                    del others[key]
            self._set_now(key, each.value)
        self._drop_empty()

    def keys_of_topic(self, topic: str) -> dict[str, list[PartitionKey]]:
        """Return group → partitions of a topic with an offset, committed or pending."""
        found: dict[str, dict[PartitionKey, None]] = {}
        for group_id, offsets in self._offsets.items():
            for key in offsets:
                if key[0] == topic:
                    found.setdefault(group_id, {})[key] = None
        for keys in self._pending.values():
            for each in keys:
                if each.topic == topic:
                    found.setdefault(each.group, {})[each.topic, each.partition] = None
        return {group_id: list(keys) for group_id, keys in found.items()}

    def pending_group_ids(self) -> set[str]:
        """Every group that has an offset in an open transaction."""
        return {key.group for keys in self._pending.values() for key in keys}

    def has_pending(self, group_id: str) -> bool:
        """Whether offsets of a group are part of an open transaction."""
        return any(key.group == group_id for keys in self._pending.values() for key in keys)

    def _drop_empty(self) -> None:
        for producer_id in [each for each, keys in self._pending.items() if not keys]:
            del self._pending[producer_id]

    def _set_pending(
        self, producer_id: int, key: Key, value: Value | None, batch_offset: int
    ) -> None:
        if isinstance(key, OffsetKey) and isinstance(value, OffsetValue):
            self._pending.setdefault(producer_id, {})[key] = _Pending(batch_offset, value)

    def store_group(self, group_id: str, value: GroupValue, now_ms: int) -> int:
        """Store a group's metadata; returns the offset to pass to `wait_durable`.

        Raises:
            StorageError, ProtocolError: nothing was stored.
        """
        return self._append([(GroupKey(group_id), value)], now_ms)

    def wait_durable(self, last_offset: int, park: Park = unparked) -> None:
        """Wait until records up to this offset are as durable as the flush policy requires.

        Raises:
            StorageError: the disk failed.
            RequestTimedOut: it takes longer than `StoreSettings.wait_s`.
        """
        self._log.wait_durable(last_offset, self._settings.wait_s, park)

    def remove(
        self,
        group_id: str,
        partitions: Iterable[PartitionKey],
        now_ms: int,
        *,
        metadata: bool = False,
    ) -> int | None:
        """Forget offsets of a group and, with `metadata`, the group itself.

        Returns:
            the offset to pass to `wait_durable`; None if there was nothing to remove.

        Raises:
            StorageError, ProtocolError: nothing was removed.
        """
        changes: list[Change] = [(OffsetKey(group_id, *each), None) for each in partitions]
        if metadata and group_id in self._groups:
            changes.append((GroupKey(group_id), None))
        return self._append(changes, now_ms) if changes else None

    # --- records and cache ------------------------------------------------------------------

    def _append(self, changes: Sequence[Change], now_ms: int) -> int:
        data = encode_message_set(_records(changes, now_ms), codec=self._settings.codec)
        result = self._log.append(bytearray(data), now_ms=now_ms)
        for key, value in changes:
            self._set(key, value)
        return result.last_offset

    def _apply(
        self,
        key_bytes: bytes | None,
        value_bytes: bytes | None,
        pending_of: EntryInfo | None,
    ) -> None:
        """Apply a record from the log; `pending_of` is its batch if that is transactional."""
        try:
            key = decode_key(key_bytes or b"")
            if key is None:
                return  # of a later version than this one
            value: Value | None = None
            if value_bytes is not None:
                decode = decode_offset if isinstance(key, OffsetKey) else decode_group
                value = decode(value_bytes)
        except MalformedFrame as error:
            logger.warning("offsets_topic_record_skipped key=%r reason=%s", key_bytes, error)
            return
        if pending_of is not None:
            self._set_pending(pending_of.producer_id, key, value, pending_of.base_offset)
            return
        self._set(key, value)

    def _set(self, key: Key, value: Value | None) -> None:
        """Apply a record that takes effect at once: pending records of its key are older."""
        if self._pending and isinstance(key, OffsetKey):
            for keys in self._pending.values():
                keys.pop(key, None)
            self._drop_empty()
        self._set_now(key, value)

    def _set_now(self, key: Key, value: Value | None) -> None:
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


class _Pending(NamedTuple):
    """An offset of an open transaction. Args: batch_offset is the first offset of its batch."""

    batch_offset: int
    value: OffsetValue


def _offset_changes(group_id: str, offsets: Mapping[PartitionKey, OffsetValue]) -> list[Change]:
    return [(OffsetKey(group_id, *key), value) for key, value in offsets.items()]


def _records(changes: Sequence[Change], now_ms: int) -> list[Unsent]:
    return [(encode_key(key), _encoded(value), now_ms, ()) for key, value in changes]


def _encoded(value: Value | None) -> bytes | None:
    if isinstance(value, OffsetValue):
        return encode_offset(value)
    return None if value is None else encode_group(value)
