"""Validation of a message set before it is written, and assignment of its offsets.

Invariant: the result is whole, verified and dense from the base offset, whatever offsets the
producer wrote; its bytes are kept wherever the format allows. Only these are rewritten: compressed
magic-0 sets (their inner offsets are absolute), wrappers whose relative offsets are not 0, 1, 2
..., and entries that do not have the pinned format or codec. Batches whose relative offsets are not
0, 1, 2 ... are refused: no producer makes them.
"""

from zkbroker.errors import (
    CorruptMessage,
    ErrorCode,
    MessageSizeTooLarge,
    ProtocolError,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from zkbroker.records import kernels
from zkbroker.records.checksum import crc32
from zkbroker.records.codec import Codec
from zkbroker.records.entries import Data, check_crc, read_head, seal_batch, set_offsets
from zkbroker.records.expand import NOTHING, Expanded, Payload, look_inside
from zkbroker.records.layout import (
    ATTRIBUTES_V01_AT,
    ATTRIBUTES_V2_LOW_AT,
    BATCH_HEADER_BYTES,
    CRC_V01_AT,
    CRC_V2_AT,
    ENTRY,
    ENTRY_HEADER_BYTES,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    OFFSET,
    TIMESTAMP_TYPE_BIT,
    TIMESTAMP_V1_AT,
    UINT32,
)
from zkbroker.records.messages import wrap_message_set
from zkbroker.records.output import SetOutput
from zkbroker.records.payload import split_message
from zkbroker.records.policy import (
    EVER,
    NO_LIMIT_MS,
    AppendPolicy,
    PreparedSet,
    allowed_timestamps,
)
from zkbroker.records.portable.batch import decode_payload
from zkbroker.records.portable.messages import decode_inner, decode_message
from zkbroker.records.record import NO_TIMESTAMP, EntryInfo, PartialEntry


def is_one_batch(data: Data, *, without: int) -> bool:
    """Whether a set is one batch of magic 2, by its head alone.

    Args:
        data: entries as a producer sent them.
        without: bits of the lower byte of its attributes that must not be set.
    """
    size = len(data)
    return (
        size >= BATCH_HEADER_BYTES
        and data[MAGIC_AT] == 2
        and not data[ATTRIBUTES_V2_LOW_AT] & without
        and ENTRY.unpack_from(data)[1] + ENTRY_HEADER_BYTES == size
    )


def prepare_append(
    data: Data,
    base_offset: int,
    policy: AppendPolicy,
    now_ms: int,
    expanded: Expanded = NOTHING,
    leader_epoch: int = 0,
) -> PreparedSet:
    """Validate a producer's message set and assign its offsets.

    Args:
        data: whole entries; changed in place if it is writable and the format allows it.
        base_offset: the log end offset.
        policy: of the partition.
        now_ms: the broker's clock.
        expanded: the result of `expand_set` for this set; other entries are expanded here.
        leader_epoch: put into batches of magic 2.

    Raises:
        CorruptMessage: size, CRC, magic, count, depth or trailing bytes are wrong.
        MessageSizeTooLarge: an entry is above the limit, or expands too far.
        ProtocolError: INVALID_TIMESTAMP.
        UnsupportedForMessageFormat: the pinned format cannot hold an entry.
    """
    buffer = data if isinstance(data, memoryview) else memoryview(data)
    if buffer.readonly:
        buffer = memoryview(bytearray(data))
    if policy.plain_magics & 1 << 2 and len(buffer) > MAGIC_AT and buffer[MAGIC_AT] == 2:
        # Most produce requests hold one uncompressed batch with all offsets in order.
        earliest, latest = EVER if policy.any_timestamp else allowed_timestamps(policy, now_ms)
        placed = kernels.place_batch(
            buffer,
            0,
            base_offset,
            policy.max_message_bytes,
            earliest,
            latest,
            leader_epoch,
        )
        if placed is not None and placed[0].size == len(buffer):
            batch, newest_at = placed
            newest = batch.max_timestamp
            return PreparedSet(
                buffer,
                base_offset,
                batch.last_offset,
                batch.record_count,
                newest,
                base_offset + (newest_at if newest > NO_TIMESTAMP else -1),
                [batch],
                2,
            )
    return _Append(buffer, base_offset, policy, now_ms, expanded, leader_epoch).run()


class _Append(SetOutput):
    """One pass over one set: each entry is checked, then kept, changed in place or replaced."""

    def __init__(
        self,
        buffer: memoryview,
        base_offset: int,
        policy: AppendPolicy,
        now_ms: int,
        expanded: Expanded,
        leader_epoch: int,
    ) -> None:
        append_time = now_ms if policy.timestamp_type == 1 else None
        super().__init__(buffer, base_offset, policy, append_time, leader_epoch)
        self.now_ms = now_ms
        self.expanded = expanded.payloads
        self.earliest, self.latest = allowed_timestamps(policy, now_ms)

    def run(self) -> PreparedSet:
        position = 0
        end = len(self.buffer)
        limit = self.policy.max_message_bytes
        while position < end:
            position = self._forward(position)
            if position == end:
                break
            try:
                entry = read_head(self.buffer, position, sent=True)
            except PartialEntry as error:
                raise CorruptMessage(f"the message set ends within an entry: {error}") from error
            if entry.size > limit:
                raise MessageSizeTooLarge(f"an entry of {entry.size} bytes, over {limit}")
            check_crc(self.buffer, entry)
            if entry.timestamp_type == 1:
                raise ProtocolError(
                    "a producer may not set the timestamp type to LogAppendTime",
                    code=ErrorCode.INVALID_TIMESTAMP,
                )
            if entry.magic == 2:
                self._batch(entry)
            elif entry.codec:
                self._wrapper(entry)
            else:
                self._message(entry)
            position += entry.size
        return self.finish()

    def _forward(self, position: int) -> int:
        """Process a run of plain messages that stay in place, in one call."""
        buffer = self.buffer
        if len(buffer) - position <= MAGIC_AT:
            return position
        magic = buffer[position + MAGIC_AT]
        policy = self.policy
        if magic > 2 or policy.message_format not in (None, magic) or policy.codec:
            return position
        self.flush()
        if magic == 2:
            if self.append_time is None:
                position = self._place_plain_batch(position)
            return position
        position, count, newest, newest_at = kernels.assign_messages(
            buffer,
            position,
            magic,
            self.next_offset,
            policy.max_message_bytes,
            self.earliest,
            self.latest,
            self.append_time,
        )
        if count:
            self.note(count, newest, magic, newest_at)
        return position

    def _place_plain_batch(self, position: int) -> int:
        policy = self.policy
        placed = kernels.place_batch(
            self.buffer,
            position,
            self.next_offset,
            policy.max_message_bytes,
            self.earliest,
            self.latest,
            self.leader_epoch,
        )
        if placed is None:
            return position
        entry, newest_at = placed
        if self.parts:
            shifted = self.place_of(position)
            self.batches.append(entry._replace(position=shifted))
        else:
            self.batches.append(entry)
        self.note(entry.record_count, entry.max_timestamp, 2, newest_at)
        return position + entry.size

    def _target(self, entry: EntryInfo) -> tuple[int, Codec]:
        pinned = self.policy.message_format
        magic = entry.magic if pinned is None else pinned
        try:
            codec = Codec(entry.codec)
        except ValueError:
            raise CorruptMessage(f"unknown compression codec {entry.codec}") from None
        if self.policy.codec is not None:
            codec = self.policy.codec
        if magic < codec.first_magic:
            raise UnsupportedCompressionType(
                f"{codec.label} cannot be stored in message format {magic}"
            )
        return magic, codec

    # -- the three kinds of entry

    def _message(self, entry: EntryInfo) -> None:
        self._check_timestamp(entry.max_timestamp)
        split_message(self.buffer, entry.position, entry.size, entry.magic)
        magic, codec = self._target(entry)
        record = decode_message(self.buffer, entry)
        if magic < 2 and not codec:
            self.rewrite(entry, [record], magic, codec)
            return
        self.hold(entry, record, magic, codec)

    def _wrapper(self, entry: EntryInfo) -> None:
        self.flush()
        magic, codec = self._target(entry)
        inner = self._inside(entry).data
        if magic == entry.magic and codec == entry.codec:
            patched = bytearray(inner)
            reached, count, newest, _ = kernels.assign_messages(
                memoryview(patched),
                0,
                magic,
                self.next_offset if magic == 0 else 0,
                NO_LIMIT_MS,
                self.earliest,
                self.latest,
                None,
            )
            if reached == len(inner) and count:
                self._place_wrapper(entry, inner, patched, count, newest)
                return
        # It needs another format, or may be damaged inside: then this call raises the error.
        records = decode_inner(inner, entry.magic)
        if entry.magic == 1:
            for record in records:
                self._check_timestamp(record.timestamp)
        self.rewrite(entry, records, magic, codec)

    def _inside(self, entry: EntryInfo) -> Payload:
        known = self.expanded.get(entry.position)
        if known is not None:
            return known
        return look_inside(self.buffer, entry, self.policy.max_decompressed_bytes)

    def _place_wrapper(
        self, entry: EntryInfo, inner: bytes, patched: bytearray, count: int, newest: int
    ) -> None:
        """Keep a wrapper whose inner offsets are already right, else wrap the patched messages."""
        last = self.next_offset + count - 1
        magic = entry.magic
        if magic == 1 and self.append_time is not None:
            newest = self.append_time
        if patched == inner:
            OFFSET.pack_into(self.buffer, entry.position, last)
            if magic == 1 and (self.append_time is not None or newest != entry.max_timestamp):
                self._stamp_message(entry, newest, 0 if self.append_time is None else 1)
        else:
            self.leave(entry)
            codec = Codec(entry.codec)
            stamp = magic == 1 and self.append_time is not None
            part = wrap_message_set(patched, magic, last, newest, stamp, codec)
            limit = self.policy.max_message_bytes
            if len(part) > limit and entry.codec == Codec.GZIP:
                # The producer compressed it better than the default level: still accept it.
                part = wrap_message_set(patched, magic, last, newest, stamp, codec, level=9)
            self.put(part)
        self.note(count, newest, magic)

    def _batch(self, entry: EntryInfo) -> None:
        self.flush()
        count = entry.record_count
        if count == 0 or entry.last_offset - entry.base_offset + 1 != count:
            raise CorruptMessage(
                f"a batch of {count} records with last offset delta "
                f"{entry.last_offset - entry.base_offset}"
            )
        if entry.is_control and not self.policy.allow_control:
            raise CorruptMessage("clients may not write control records")
        if entry.producer_id >= 0 and entry.base_sequence < 0 and not entry.is_control:
            raise CorruptMessage(f"producer id {entry.producer_id} without a sequence number")
        magic, codec = self._target(entry)
        if magic < 2 and (entry.producer_id >= 0 or entry.is_transactional or entry.is_control):
            raise UnsupportedForMessageFormat(
                f"message format {magic} holds neither idempotent nor transactional batches"
            )
        payload, found = self._inside(entry)
        assert found is not None  # it is a batch
        oldest, newest, newest_at, dense = found
        if not dense:
            raise CorruptMessage("a batch whose offset deltas are not 0, 1, 2 ...")
        self._check_timestamp(oldest)
        self._check_timestamp(newest)
        if magic == 2 and codec == entry.codec:
            self._place_batch(entry, newest, newest_at)
            return
        self.rewrite(entry, decode_payload(payload, entry), magic, codec)

    def _place_batch(self, entry: EntryInfo, newest: int, newest_at: int) -> None:
        position = entry.position
        set_offsets(self.buffer, position, self.next_offset, self.leader_epoch)
        crc = entry.crc
        append_time = self.append_time
        if append_time is not None:
            newest = append_time
            self.buffer[position + ATTRIBUTES_V2_LOW_AT] |= TIMESTAMP_TYPE_BIT
        if append_time is not None or newest != entry.max_timestamp:
            OFFSET.pack_into(self.buffer, position + MAX_TIMESTAMP_AT, newest)
            batch = self.buffer[position : position + entry.size]
            seal_batch(batch)
            (crc,) = UINT32.unpack_from(batch, CRC_V2_AT)
        first = self.next_offset
        last = first + entry.record_count - 1
        self.batches.append(
            EntryInfo(
                self.place_of(position),
                entry.size,
                2,
                entry.codec,
                first,
                last,
                entry.base_timestamp,
                newest,
                0 if append_time is None else 1,
                entry.record_count,
                crc,
                entry.producer_id,
                entry.producer_epoch,
                entry.base_sequence,
                entry.is_control,
                entry.is_transactional,
                self.leader_epoch,
            )
        )
        exact = append_time is None and not entry.codec
        self.note(entry.record_count, newest, 2, newest_at if exact else None)

    # -- timestamps

    def _check_timestamp(self, timestamp: int) -> None:
        if timestamp == NO_TIMESTAMP or self.earliest <= timestamp <= self.latest:
            return
        raise ProtocolError(
            f"timestamp {timestamp} is more than {self.policy.max_timestamp_difference_ms} ms "
            f"from the broker's {self.now_ms}",
            code=ErrorCode.INVALID_TIMESTAMP,
        )

    def _stamp_message(self, entry: EntryInfo, timestamp: int, timestamp_type: int) -> None:
        """Put a timestamp into a magic-1 message and recompute its CRC."""
        position = entry.position
        if timestamp_type:
            self.buffer[position + ATTRIBUTES_V01_AT] |= TIMESTAMP_TYPE_BIT
        OFFSET.pack_into(self.buffer, position + TIMESTAMP_V1_AT, timestamp)
        crc = crc32(self.buffer[position + MAGIC_AT : position + entry.size])
        UINT32.pack_into(self.buffer, position + CRC_V01_AT, crc)
