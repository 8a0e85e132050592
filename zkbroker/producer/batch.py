"""A batch: messages of one partition that are encoded, sent, retried and resolved together.

    open ──build──▶ built ──send──▶ in flight ──▶ resolved (offset or error)
                      ▲                 │
                      └──── retry ──────┘        the built bytes never change

Invariant: bytes are built once and sent as they are by every retry. They are built anew only where
nothing of them can be in a log: for a broker that cannot read their format, or under another
producer id for a batch that never left.
"""

from collections.abc import Sequence
from itertools import count

from zkbroker.producer.future import SendFuture
from zkbroker.producer.message import KeyedMessage, RecordMetadata
from zkbroker.records import Codec, encode_message_set

NO_PRODUCER_ID = -1

_ordinals = count()


class Batch:
    """Messages for one partition.

    Attributes:
        first_at: `time.monotonic()` of the first message, in s.
        ordinal: grows with each batch; the order in which batches of a partition leave.
        attempts: how often sending it failed.
        not_before: `time.monotonic()` before which it is not sent again, in s.
        returned: whether it was in flight and came back to be sent again.
        closed: whether it takes no more messages.
        announced: whether the callback handler saw it before it was sent.
        last_error: of the latest attempt.
        uncertain: whether it was sent and its answer lost, so that it may be stored.
        base_sequence: sequence number of its first message under `producer_id`; -1 without.
    """

    __slots__ = (
        "_timestamp_ms",
        "announced",
        "attempts",
        "base_offset",
        "base_sequence",
        "closed",
        "data",
        "error",
        "first_at",
        "futures",
        "last_error",
        "magic",
        "not_before",
        "ordinal",
        "partition",
        "producer_epoch",
        "producer_id",
        "resolved",
        "returned",
        "size",
        "topic",
        "uncertain",
    )

    def __init__(self, topic: str, partition: int, first_at: float) -> None:
        self.topic = topic
        self.partition = partition
        self.first_at = first_at
        self.ordinal = next(_ordinals)
        self.closed = False
        self.returned = False
        self.futures: list[SendFuture] = []
        self.size = 0
        self.attempts = 0
        self.not_before = 0.0
        self.uncertain = False
        self.announced = False
        self.last_error: BaseException | None = None
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.base_sequence = -1
        self.data: bytes | None = None
        self.magic = -1
        self.resolved = False
        self.base_offset = -1
        self._timestamp_ms = -1
        self.error: BaseException | None = None

    def __len__(self) -> int:
        return len(self.futures)

    @property
    def where(self) -> str:
        """Where it goes, for messages and log lines."""
        return f"topic {self.topic} partition {self.partition}"

    @property
    def messages(self) -> list[KeyedMessage]:
        """The messages, in order."""
        return [future.message for future in self.futures]

    def close(self) -> None:
        """Take no more messages, and bind the futures to this batch."""
        self.closed = True
        for index, future in enumerate(self.futures):
            future.batch = self
            future.index = index

    def build(self, magic: int, codec: Codec, level: int | None) -> bytes:
        """Encode for a broker that reads `magic`; bytes that exist are kept where it can.

        Args:
            magic: message format to write.
            codec: compression of the batch.
            level: the codec's level; None for its default.
        """
        if self.data is not None and self.magic == magic:
            return self.data
        self.data = encode_message_set(
            [future.record for future in self.futures],
            magic=magic,
            codec=codec,
            compression_level=level,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
        )
        self.magic = magic
        return self.data

    def number(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give the batch its place under a producer id; what was built before is void."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.data = None

    def split(self) -> list["Batch"]:
        """Return two batches with half of the messages each, in order and numbered on."""
        middle = len(self.futures) // 2
        halves = []
        for start, futures in ((0, self.futures[:middle]), (middle, self.futures[middle:])):
            half = Batch(self.topic, self.partition, self.first_at)
            half.futures = futures
            half.size = sum(future.size for future in futures)
            half.producer_id = self.producer_id
            half.producer_epoch = self.producer_epoch
            if self.base_sequence >= 0:
                half.base_sequence = next_sequence(self.base_sequence, start)
            half.ordinal = self.ordinal
            half.returned = True
            half.announced = True
            half.close()
            halves.append(half)
        return halves

    def succeed(self, base_offset: int, timestamp_ms: int) -> None:
        """Resolve every future to its place.

        Args:
            base_offset: offset of the first message; -1 where it is not known.
            timestamp_ms: the broker's append time; -1 where the messages' own times hold.
        """
        self.base_offset = base_offset
        self._timestamp_ms = timestamp_ms
        self._resolve()

    def fail(self, error: BaseException) -> None:
        """Resolve every future to `error`."""
        self.error = error
        self._resolve()

    def _resolve(self) -> None:
        self.resolved = True
        self.data = None
        for future in self.futures:
            if future.waiters is not None:
                future.wake()

    def metadata(self, index: int) -> RecordMetadata:
        """Return where the message at `index` was stored."""
        timestamp_ms = self._timestamp_ms
        return RecordMetadata(
            self.topic,
            self.partition,
            self.base_offset + index if self.base_offset >= 0 else -1,
            self.futures[index].record[2] if timestamp_ms < 0 else timestamp_ms,
        )

    def all_metadata(self) -> Sequence[RecordMetadata]:
        """Return where each message was stored."""
        return [self.metadata(index) for index in range(len(self.futures))]

    @property
    def numbered(self) -> bool:
        """Whether it has a place under a producer id."""
        return self.base_sequence >= 0


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence number `count` messages later; it wraps from 2^31 - 1 to 0."""
    return (sequence + count) & 0x7FFFFFFF
