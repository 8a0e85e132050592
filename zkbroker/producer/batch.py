"""A batch: messages of one partition that are encoded, sent, retried and resolved together.

    open ──build──▶ built ──send──▶ in flight ──▶ resolved (offset or error)
                      ▲                 │
                      └──── retry ──────┘        the built bytes never change

Invariant: bytes are built once, and every retry sends the same bytes. They are built again only
where they cannot be in any log: for a broker that cannot read their format, or under another
producer id for a batch that was never sent.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import count

from zkbroker.codecs import EVERY_CODEC
from zkbroker.producer.message import RecordMetadata
from zkbroker.producer.queued_messages import EncodedRecord, Part, SendFuture, futures_of
from zkbroker.records import Codec, encode_message_set

NO_PRODUCER_ID = -1

_ordinals = count()


@dataclass(slots=True, eq=False, repr=False)
class Batch:
    """Messages for one partition.

    Attributes:
        parts: the messages, as parts of queued lists; `records` has one record for each.
        halves: the two batches that replaced it when it was too large.
        first_at: `time.monotonic()` of the first message, in s.
        ordinal: grows with each batch; the order in which batches of a partition leave.
        attempts: how often sending it failed.
        counted_attempts: how many of these count against the retries.
        leader_away_since: `time.monotonic()` of the first failure without a leader, in s.
        not_before: `time.monotonic()` before which it is not sent again, in s.
        returned: whether it was in flight and came back to be sent again.
        closed: whether it takes no more messages.
        announced: whether the callback handler saw it before it was sent.
        last_error: of the latest attempt.
        doubt: why it may be stored although an attempt failed, such as a lost answer, or empty.
        base_sequence: sequence number of its first message under `producer_id`; -1 without.
        append_time_ms: the broker's, of a stored batch; -1 where the messages keep their own.
    """

    topic: str
    partition: int
    first_at: float
    ordinal: int = field(default_factory=_ordinals.__next__)
    parts: list[Part] = field(default_factory=list)
    records: list[EncodedRecord] = field(default_factory=list)
    halves: "tuple[Batch, Batch] | None" = None
    size: int = 0
    attempts: int = 0
    counted_attempts: int = 0
    leader_away_since: float | None = None
    not_before: float = 0.0
    closed: bool = False
    returned: bool = False
    announced: bool = False
    doubt: str = ""
    last_error: BaseException | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = -1
    data: bytes | None = None
    magic: int = -1
    resolved: bool = False
    base_offset: int = -1
    append_time_ms: int = -1
    error: BaseException | None = None

    def __len__(self) -> int:
        return len(self.records)

    @property
    def where(self) -> str:
        """Its topic and partition, for messages and log lines."""
        return f"topic {self.topic} partition {self.partition}"

    def keyless(self) -> int:
        """Return how many of its messages have no key."""
        return sum(record[0] is None for record in self.records)

    def futures(self) -> list[SendFuture]:
        """Return the futures of its messages, in order."""
        return futures_of(self.parts)

    def add(self, part: Part, records: Sequence[EncodedRecord], size: int) -> None:
        """Add messages at the end.

        Args:
            part: the messages.
            records: their records.
            size: bytes of all of them.
        """
        part[0].places.append((part[1], self, len(self.records)))
        self.parts.append(part)
        self.records += records
        self.size += size

    def refill(self, parts: Sequence[Part]) -> None:
        """Replace its messages."""
        for queued, _ in self.parts:
            queued.forget(self)
        self.parts, self.records, self.size = [], [], 0
        for queued, indices in parts:
            self.add(
                (queued, indices),
                [queued.records[index] for index in indices],
                sum(queued.sizes[index] for index in indices),
            )

    def descend(self, position: int) -> tuple["Batch", int]:
        """Return the batch that holds a position's message after splits, and the position there."""
        batch = self
        while batch.halves is not None:
            first, second = batch.halves
            if position < len(first):
                batch = first
            else:
                batch, position = second, position - len(first)
        return batch, position

    def enter(self, now: float) -> None:
        """Take the place after all existing batches; it takes no more messages.

        Args:
            now: `time.monotonic()`, from which its age counts.
        """
        self.ordinal = next(_ordinals)
        self.first_at = now
        self.closed = True

    def build(
        self,
        magic: int,
        codec: Codec,
        level: int | None,
        *,
        produce_version: int = EVERY_CODEC,
        transactional: bool = False,
    ) -> bytes:
        """Encode for a broker that reads `magic`; keep existing bytes that it can read.

        Args:
            magic: message format to write.
            codec: compression of the batch.
            level: the codec's level; None for its default.
            produce_version: of the request, which may carry `codec`.
            transactional: whether it is part of a transaction; the same at every call.
        """
        if self.data is not None and self.magic == magic:
            return self.data
        self.data = encode_message_set(
            self.records,
            magic=magic,
            codec=codec,
            compression_level=level,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            is_transactional=transactional,
        )
        self.magic = magic
        return self.data

    def decoded(
        self, codec: Codec, allowed: Collection[Codec]
    ) -> tuple[Sequence[EncodedRecord], Codec]:
        """Return the records and the codec to use, for a format that is encoded elsewhere.

        Args:
            codec: of the producer.
            allowed: the codecs of the format.
        """
        return self.records, codec

    def number(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Number the batch under a producer id; bytes built before are dropped."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.data = None

    def split(self) -> list["Batch"]:
        """Return two batches with half of the messages each, in order and numbered on."""
        middle = len(self.records) // 2
        before: list[Part] = []
        behind: list[Part] = []
        left = middle
        for queued, indices in self.parts:
            taken = min(left, len(indices))
            left -= taken
            if taken:
                before.append((queued, indices[:taken]))
            if taken < len(indices):
                behind.append((queued, indices[taken:]))
        self.halves = self._half(before, 0), self._half(behind, middle)
        return list(self.halves)

    def _half(self, parts: list[Part], start: int) -> "Batch":
        half = Batch(self.topic, self.partition, self.first_at)
        half.parts = parts
        half.records = self.records[start : start + sum(len(indices) for _, indices in parts)]
        half.size = sum(queued.sizes[index] for queued, indices in parts for index in indices)
        self._hand_on(half, start)
        return half

    def _hand_on(self, half: "Batch", start: int) -> None:
        """Give a half, which begins with the message at `start`, its numbers and its place."""
        half.producer_id = self.producer_id
        half.producer_epoch = self.producer_epoch
        if self.base_sequence >= 0:
            half.base_sequence = next_sequence(self.base_sequence, start)
        half.ordinal, half.first_at = self.ordinal, self.first_at
        half.returned = half.announced = half.closed = True

    def succeed(self, base_offset: int, timestamp_ms: int) -> None:
        """Resolve every message to its offset; call `wake` afterwards for the waiters.

        Args:
            base_offset: offset of the first message; -1 where it is not known.
            timestamp_ms: the broker's append time; -1 where the messages keep their own.
        """
        self.base_offset = base_offset
        self.append_time_ms = timestamp_ms
        self.resolved, self.data = True, None

    def fail(self, error: BaseException) -> None:
        """Resolve every message to `error`; call `wake` afterwards for the waiters."""
        self.error = error
        self.resolved, self.data = True, None

    def wake(self) -> None:
        """Call the waiters of its messages. They may be a user's code: hold no lock."""
        for queued, _ in self.parts:
            if queued.waiters:
                queued.wake()

    def metadata(self, position: int) -> RecordMetadata:
        """Return where the message at a position was stored."""
        timestamp_ms = self.append_time_ms
        return RecordMetadata(
            self.topic,
            self.partition,
            self.base_offset + position if self.base_offset >= 0 else -1,
            self.records[position][2] if timestamp_ms < 0 else timestamp_ms,
        )

    @property
    def numbered(self) -> bool:
        """Whether it is numbered under a producer id."""
        return self.base_sequence >= 0


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence number `count` messages later; it wraps from 2^31 - 1 to 0."""
    return (sequence + count) & 0x7FFFFFFF
