"""The rules of a partition for appended sets, and a validated set.

Invariant: checks that depend only on the request (`check_produce`) are made before checks that
depend on the partition (`prepare_append`).
"""

from dataclasses import dataclass, field
from typing import Final

from zkbroker.codecs import CODEC_NAMES, PRODUCE_SINCE
from zkbroker.errors import CorruptMessage, UnsupportedCompressionType
from zkbroker.records import kernels
from zkbroker.records.codec import MAX_DECOMPRESSED_BYTES, Codec
from zkbroker.records.entries import Data, read_head
from zkbroker.records.record import EntryInfo, PartialEntry

NO_LIMIT_MS: Final = 2**63 - 1
DEFAULT_MAX_MESSAGE_BYTES: Final = 1_000_012
EVER: Final = (-(2**63), 2**63 - 1)
"""The smallest and the largest timestamp, where any is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPolicy:
    """The rules of a partition for appended sets.

    Args:
        max_message_bytes: largest entry, with its 12 bytes of offset and length.
        timestamp_type: 0 CreateTime, 1 LogAppendTime.
        max_timestamp_difference_ms: how far a CreateTime may be from the broker's clock.
        message_format: 0, 1 or 2; None stores what the producer sent.
        codec: of stored entries; None keeps the producer's.
        allow_control: whether control batches are allowed: for the coordinator, not for clients.
        max_decompressed_bytes: the largest size that one entry may expand to while it is validated.
    """

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    timestamp_type: int = 0
    max_timestamp_difference_ms: int = NO_LIMIT_MS
    message_format: int | None = None
    codec: Codec | None = None
    allow_control: bool = False
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    plain_magics: int = field(init=False)
    """The magics whose plain entries change only in offset and leader epoch: `1 << magic` each."""
    any_timestamp: bool = field(init=False)
    """Whether messages with any timestamp are accepted."""

    def __post_init__(self) -> None:
        stays = not self.codec and self.timestamp_type == 0
        magics = 7 if self.message_format is None else 1 << self.message_format
        anything = self.timestamp_type == 1 or self.max_timestamp_difference_ms == NO_LIMIT_MS
        # Computed once, before the first of many appends.
        object.__setattr__(self, "plain_magics", magics if stays else 0)
        object.__setattr__(self, "any_timestamp", anything)


@dataclass(slots=True)
class PreparedSet:
    """A validated set with its offsets.

    `offset_of_max_timestamp` is the offset that a genuine broker puts into its time index: that of
    the first record with the largest timestamp, or of the last record of a compressed or
    LogAppendTime entry. `batches` are the magic-2 batches with positions in `data`. An empty set
    has `count` 0 and `last_offset` one below `first_offset`.
    """

    data: bytes | bytearray | memoryview
    first_offset: int
    last_offset: int
    count: int
    max_timestamp: int
    offset_of_max_timestamp: int
    batches: list[EntryInfo]
    max_magic: int


def check_produce(data: Data, api_version: int) -> None:
    """Check that a record set is allowed in a version of Produce.

    From version 3 on it must be exactly one batch of magic 2, with a codec that the version allows.

    Raises:
        CorruptMessage: it is no batch, more than one, or of an older magic.
        UnsupportedCompressionType: the codec needs a later version.
    """
    if api_version < 3:
        return
    first = kernels.entry_head(data, 0, False)
    if first is None:
        try:
            first = read_head(data, sent=True)
        except PartialEntry as error:
            raise CorruptMessage(
                "a produce request of version 3 or later needs one record batch"
            ) from error
    if first.magic != 2 or first.size != len(data):
        raise CorruptMessage("a produce request of version 3 or later holds one batch of magic 2")
    since = PRODUCE_SINCE[first.codec]
    if api_version < since:
        raise UnsupportedCompressionType(
            f"{CODEC_NAMES[first.codec]} needs produce version {since}"
        )


def allowed_timestamps(policy: AppendPolicy, now_ms: int) -> tuple[int, int]:
    """Return the smallest and the largest timestamp (ms) that a partition accepts."""
    if policy.any_timestamp:
        return EVER
    limit = policy.max_timestamp_difference_ms
    return max(now_ms - limit, EVER[0]), min(now_ms + limit, EVER[1])
