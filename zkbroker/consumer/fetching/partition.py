"""A partition that this member consumes: its fetch offset, and how far it was consumed.

    log    ... |  consumed  | in hand |  queued chunks  | not fetched ...
                            ^processed ^delivered        ^fetch_offset

Invariants:
- A `ReadProgress` is one uninterrupted reading. A seek and the loss of the partition replace it,
  and messages fetched or decoded under an older one are dropped: the identity of the object is
  its generation.
- Only the reader of the stream writes to a `ReadProgress`; only the fetcher moves `fetch_offset`
  within one; the lock is held for a few assignments only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from zkbroker.consumer.fetching.decode import Decode, decode_chunk
from zkbroker.errors import ErrorCode
from zkbroker.measures import TopicCounts
from zkbroker.runtime import Lock
from zkbroker.types import PartitionKey


class ReadProgress:
    """How far one reading got, as **last** offsets; None while nothing is known.

    `delivered` is the last message handed out; `processed` the last one whose reader came back
    for more. Automatic commits use `processed`, so that a crash never loses a message in hand.

    Args:
        next_offset: where it begins.
        step: what to add to a message's offset to get the next one: 1, and 0 in Kafka 0.7, where
            a message's offset is the position after it.
    """

    __slots__ = ("delivered", "processed", "step")

    def __init__(self, next_offset: int | None, step: int = 1) -> None:
        self.step = step
        last = None if next_offset is None else next_offset - step
        self.delivered = last
        self.processed = last


@dataclass(slots=True, eq=False)
class Chunk:
    """A fetched piece of one partition on its way to a stream.

    `records` is a message set that may begin before `offset`; the next fetch begins at
    `next_offset`. A chunk without records only moves the position, or carries an error.
    """

    partition: "ConsumedPartition"
    progress: ReadProgress
    offset: int
    next_offset: int
    records: bytes | memoryview = b""
    error: Exception | None = None

    @property
    def last_offset(self) -> int:
        """The last offset that the chunk covers."""
        return self.next_offset - self.progress.step


class ChunkSink(Protocol):
    """A stream, as a partition sees it."""

    def put(self, chunk: Chunk) -> None:
        """Queue a chunk; never waits."""

    @property
    def queued(self) -> int:
        """Chunks that wait."""


_LOST = ReadProgress(None)


@dataclass(slots=True, eq=False)
class ConsumedPartition:
    """One owned partition.

    Args:
        next_offset: where to start; None when the group has no offset.
        fetch_bytes: the fetch size, doubled for a message that does not fit.
        decode: turns fetched bytes into messages.
        step: see `ReadProgress`.
    """

    topic: str
    partition: int
    sink: ChunkSink
    lock: Lock
    fetch_bytes: int
    next_offset: int | None
    max_chunks: int = 2
    decode: Decode = decode_chunk
    step: int = 1
    progress: ReadProgress = field(init=False)
    fetch_offset: int | None = field(init=False)
    high_watermark: int = field(default=-1, init=False)
    halted: bool = field(default=False, init=False)
    chunks_put: int = field(default=0, init=False)
    chunks_taken: int = field(default=0, init=False)
    trouble: ErrorCode = field(default=ErrorCode.NONE, init=False)
    """The broker's last error for the partition; repetitions of it are not logged."""
    doubted_offset: int | None = field(default=None, init=False)
    """The offset that a broker reported as out of range; a second report is believed."""
    counts: TopicCounts = field(default_factory=TopicCounts, init=False)
    """Counts of its topic, over all partitions of this consumer."""

    def __post_init__(self) -> None:
        self.fetch_offset = self.next_offset
        self.progress = ReadProgress(self.next_offset, self.step)

    @property
    def key(self) -> PartitionKey:
        """Topic and partition number."""
        return self.topic, self.partition

    @property
    def revoked(self) -> bool:
        """Whether the partition was given up or lost."""
        return self.progress is _LOST

    @property
    def has_room(self) -> bool:
        """Whether the queue has room for one more chunk.

        A stream holds `max_chunks`, and beyond these at most one chunk of each partition, so that
        a busy partition cannot keep a quiet one from being fetched.
        """
        return self.chunks_put == self.chunks_taken or self.sink.queued < self.max_chunks

    def revoke(self) -> ReadProgress:
        """Give the partition up; chunks on their way become stale. Never waits on others.

        Returns:
            The reading that ended.
        """
        with self.lock:
            last, self.progress = self.progress, _LOST
        return last

    def seek(self, next_offset: int | None, *, halted: bool = False) -> bool:
        """Continue at another offset; None applies the reset policy. False when revoked.

        Args:
            next_offset: where.
            halted: whether nothing is fetched from there until another `seek`.
        """
        with self.lock:
            if self.revoked:
                return False
            self.progress = ReadProgress(next_offset, self.step)
            self.fetch_offset = next_offset
            self.halted = halted
            return True

    def reset(self, progress: ReadProgress, next_offset: int) -> bool:
        """Set the fetch offset after a reset; earlier chunks stay in order.

        Returns:
            False when `progress` is not the current reading any more.
        """
        with self.lock:
            if self.progress is not progress:
                return False
            self.fetch_offset = next_offset
            # The position moves in the order of the queue: an empty chunk carries it.
            self._put(Chunk(self, progress, next_offset, next_offset))
            return True

    def add(self, chunk: Chunk) -> bool:
        """Queue a chunk and advance the fetch offset; False when the chunk is stale.

        A chunk of another reading is stale, and one that another broker's answer came before.
        """
        with self.lock:
            if self.progress is not chunk.progress:
                return False
            if self.fetch_offset is not None and self.fetch_offset != chunk.offset:
                return False
            self.fetch_offset = chunk.next_offset
            if chunk.error is not None:
                self.halted = True
            self._put(chunk)
            return True

    def _put(self, chunk: Chunk) -> None:
        self.chunks_put += 1
        self.sink.put(chunk)

    def position(self, *, in_hand: bool) -> int | None:
        """Return the offset of the next message to consume, None when unknown or revoked.

        Args:
            in_hand: whether the message handed out last counts as consumed.
        """
        return next_after(self.progress, in_hand=in_hand)


def positions(
    partitions: Mapping[PartitionKey, ConsumedPartition], *, in_hand: bool
) -> dict[PartitionKey, int]:
    """Return the next offset of each partition where it is known; see `position`."""
    # A copy: another task may take partitions up, or give them away.
    found = {key: each.position(in_hand=in_hand) for key, each in dict(partitions).items()}
    return {key: position for key, position in found.items() if position is not None}


def lag(partitions: Mapping[PartitionKey, ConsumedPartition]) -> dict[PartitionKey, int]:
    """Return how many offsets each partition is behind, as of its last fetch."""
    present = dict(partitions)
    return {
        key: max(0, present[key].high_watermark - position)
        for key, position in positions(present, in_hand=True).items()
        if present[key].high_watermark >= 0
    }


def next_after(progress: ReadProgress, *, in_hand: bool) -> int | None:
    """Return the next offset of a reading; see `ConsumedPartition.position`."""
    last = progress.delivered if in_hand else progress.processed
    return None if last is None else last + progress.step
