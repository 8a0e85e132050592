"""Builds the message sets that producers send: one magic and one codec each.

Invariant: `build` may be called again and gives the same bytes; a built set is never changed, so a
retry sends the same bytes.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from zkbroker.records.batch import build_batch
from zkbroker.records.codec import Codec
from zkbroker.records.layout import BATCH_HEADER_BYTES, MESSAGE_V0, MESSAGE_V1
from zkbroker.records.messages import build_message_set
from zkbroker.records.record import NO_TIMESTAMP, Headers, Unsent

# The largest overhead of a record beside its key and value: in magic 2 length 5, attributes 1,
# timestamp 10, offset 5, two lengths of 5, header count 5; each header adds two more lengths.
RECORD_OVERHEAD_BYTES: Final = (MESSAGE_V0.size + 4, MESSAGE_V1.size + 4, 36)
_HEADER_OVERHEAD: Final = 10


def max_encoded_bytes(
    magic: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> int:
    """Return the largest size of a record in a set, uncompressed.

    A set has a further overhead once: 61 bytes in magic 2, one message's overhead for a compressed
    set of magic 0 or 1.
    """
    size = RECORD_OVERHEAD_BYTES[magic]
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += _HEADER_OVERHEAD + 4 * len(name) + len(content or b"")
    return size


def encode_message_set(
    records: Sequence[Unsent],
    *,
    magic: int = 2,
    codec: Codec = Codec.NONE,
    compression_level: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    base_offset: int = 0,
) -> bytes:
    """Encode one message set (magic 0, 1) or one batch (magic 2); no bytes without records.

    Args:
        records: key, value, timestamp in ms (-1 none), headers (empty below magic 2).
        magic: 0, 1 or 2.
        codec: one that the magic may hold.
        compression_level: of the codec; None is its default.
        producer_id: magic 2, of an idempotent producer, with epoch and sequence.
        producer_epoch: see `producer_id`.
        base_sequence: see `producer_id`.
        is_transactional: magic 2, part of a transaction.
        base_offset: of the first record; a producer sends 0.
    """
    if not records:
        return b""
    if magic == 2:
        return build_batch(
            records,
            base_offset=base_offset,
            codec=codec,
            level=compression_level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
    return build_message_set(
        records, magic, base_offset=base_offset, codec=codec, level=compression_level
    )


class MessageSetBuilder:
    """Collects records and encodes them into one message set (magic 0, 1) or batch (magic 2)."""

    __slots__ = ("_encode", "_magic", "_records", "_size")

    def __init__(
        self,
        magic: int = 2,
        codec: Codec = Codec.NONE,
        *,
        compression_level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
    ) -> None:
        """Start an empty set; the arguments are those of `encode_message_set`.

        Raises:
            ValueError: there is no such magic, or it cannot hold the codec or the producer id.
        """
        if magic not in (0, 1, 2):
            raise ValueError(f"magic {magic}: not 0, 1 or 2")
        if magic < codec.first_magic or (magic < 2 and (producer_id >= 0 or is_transactional)):
            raise ValueError(
                f"magic {magic} holds neither {codec.label} nor producer ids nor transactions"
                if magic < codec.first_magic
                else f"magic {magic} holds neither producer ids nor transactions"
            )
        self._magic = magic
        self._records: list[Unsent] = []
        self._encode = partial(
            encode_message_set,
            self._records,
            magic=magic,
            codec=codec,
            compression_level=compression_level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
        wrapper = RECORD_OVERHEAD_BYTES[magic] if codec else 0
        self._size = BATCH_HEADER_BYTES if magic == 2 else wrapper

    @property
    def count(self) -> int:
        """The number of appended records."""
        return len(self._records)

    @property
    def size_bytes(self) -> int:
        """An upper bound of the size before compression."""
        return self._size

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> None:
        """Append a record; timestamps need magic 1, headers magic 2.

        Raises:
            ValueError: the magic has no headers.
        """
        if headers and self._magic < 2:
            raise ValueError(f"magic {self._magic} has no headers")
        self._size += max_encoded_bytes(self._magic, key, value, headers)
        self._records.append(
            (key, value, NO_TIMESTAMP if timestamp_ms is None else timestamp_ms, headers)
        )

    def build(self, base_offset: int = 0) -> bytes:
        """Encode the appended records; no bytes if there are none.

        Args:
            base_offset: of the first record; a producer sends 0.
        """
        return self._encode(base_offset=base_offset)
