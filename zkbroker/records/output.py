"""The output of validation: entries that stay in place, and entries that were rewritten.

    received   | kept | replaced | kept | kept |
    written    | kept | new      | kept | kept |      joined only if an entry was replaced

Invariant: offsets are assigned in the order in which entries are written, dense from the first.
"""

from zkbroker.errors import MessageSizeTooLarge
from zkbroker.records.batch import build_batch
from zkbroker.records.codec import Codec
from zkbroker.records.entries import read_head
from zkbroker.records.messages import build_message_set, unsent
from zkbroker.records.policy import AppendPolicy, PreparedSet
from zkbroker.records.record import NO_TIMESTAMP, EntryInfo, Record


class SetOutput:
    """Collects a set entry by entry, with its count, offsets and timestamps."""

    def __init__(
        self,
        buffer: memoryview,
        base_offset: int,
        policy: AppendPolicy,
        append_time: int | None,
        leader_epoch: int,
    ) -> None:
        self.buffer = buffer
        self.policy = policy
        self.append_time = append_time
        self.leader_epoch = leader_epoch
        self.first_offset = base_offset
        self.next_offset = base_offset
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max = base_offset - 1
        self.parts: list[bytes | memoryview] = []
        self.written = 0
        self.kept_from = 0
        self.batches: list[EntryInfo] = []
        self.magics: set[int] = set()
        self.loose: list[Record] = []
        self.loose_bytes = 0
        self.loose_target: tuple[int, Codec, EntryInfo]  # set with the first loose record

    def place_of(self, position: int) -> int:
        """Return where a kept entry at a position of the buffer will be in the output."""
        return self.written + position - self.kept_from

    def hold(self, entry: EntryInfo, record: Record, magic: int, codec: Codec) -> None:
        """Collect a message for a batch or wrapper, which takes as many as fit."""
        if self.loose and self.loose_bytes + entry.size > self.policy.max_message_bytes // 2:
            self.flush()
        if not self.loose:
            self.leave(entry)
        self.loose.append(record)
        self.loose_bytes += entry.size
        self.loose_target = (magic, codec, entry)
        self.kept_from = entry.position + entry.size

    def note(self, count: int, timestamp: int, magic: int, at: int | None = None) -> None:
        """Count an entry; `at` is the index of the record with the timestamp, None for the last."""
        self.magics.add(magic)
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max = self.next_offset + (count - 1 if at is None else at)
        self.next_offset += count

    def leave(self, entry: EntryInfo) -> None:
        """End the run of kept entries before one that is replaced."""
        kept = self.buffer[self.kept_from : entry.position]
        if kept:
            self.parts.append(kept)
            self.written += len(kept)
        self.kept_from = entry.position + entry.size

    def rewrite(self, entry: EntryInfo, records: list[Record], magic: int, codec: Codec) -> None:
        """Replace an entry by its records in another form."""
        self.leave(entry)
        self.write(records, magic, codec, entry)

    def flush(self) -> None:
        """Write the collected messages."""
        if self.loose:
            records, self.loose, self.loose_bytes = self.loose, [], 0
            self.write(records, *self.loose_target)

    def write(self, records: list[Record], magic: int, codec: Codec, source: EntryInfo) -> None:
        """Write records as one entry; a batch keeps the producer fields of its source."""
        first = self.next_offset
        newest = max(record.timestamp for record in records) if magic else NO_TIMESTAMP
        if self.append_time is not None and magic > 0:
            newest = self.append_time
        if magic == 2:
            part = build_batch(
                unsent(records),
                base_offset=first,
                codec=codec,
                timestamp_type=self.policy.timestamp_type,
                append_time=self.append_time,
                producer_id=source.producer_id,
                producer_epoch=source.producer_epoch,
                base_sequence=source.base_sequence,
                partition_leader_epoch=self.leader_epoch,
                is_transactional=source.is_transactional,
                is_control=source.is_control,
            )
            self.batches.append(read_head(part)._replace(position=self.written))
        else:
            part = build_message_set(
                unsent(records),
                magic,
                base_offset=first,
                codec=codec,
                append_time=self.append_time,
            )
        self.put(part)
        self.note(len(records), newest, magic)

    def put(self, part: bytes) -> None:
        """Write a new entry; MessageSizeTooLarge if it exceeds the limit."""
        if len(part) > self.policy.max_message_bytes:
            raise MessageSizeTooLarge(
                f"an entry of {len(part)} bytes after conversion, "
                f"over {self.policy.max_message_bytes}"
            )
        self.parts.append(part)
        self.written += len(part)

    def finish(self) -> PreparedSet:
        """Join the output."""
        self.flush()
        data: bytes | memoryview = self.buffer
        if self.parts:
            tail = self.buffer[self.kept_from :]
            if tail:
                self.parts.append(tail)
            data = b"".join(self.parts)
        return PreparedSet(
            data,
            self.first_offset,
            self.next_offset - 1,
            self.next_offset - self.first_offset,
            self.max_timestamp,
            self.offset_of_max,
            self.batches,
            max(self.magics, default=2),
        )
