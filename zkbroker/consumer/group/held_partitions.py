"""The partitions that a consumer holds: the position in each, and the messages ready to return.

Invariant: only messages of held partitions, fetched since their last seek, are handed out; messages
handed out before the last `mark_processed` count as processed.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field

from zkbroker.client.group_offsets import Committed
from zkbroker.consumer.fetching.messages import MessageAndMetadata, NotOwned
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition, lag, positions
from zkbroker.consumer.group.inbox import Inbox, Taken
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey


@dataclass(eq=False)
class HeldPartitions:
    """Partitions and their messages.

    Args:
        runtime: for locks.
        inbox: where fetched messages come from.
        fetch_bytes: the fetch size of a partition.
        queued_chunks: how many fetched chunks may wait.
    """

    runtime: Runtime
    inbox: Inbox
    _: KW_ONLY
    fetch_bytes: int
    queued_chunks: int
    partitions: dict[PartitionKey, ConsumedPartition] = field(default_factory=dict, init=False)
    paused: set[PartitionKey] = field(default_factory=set, init=False)
    _ready: deque[Taken] = field(default_factory=deque, init=False)

    def add(
        self,
        keys: Iterable[PartitionKey],
        committed: Mapping[PartitionKey, Committed | None],
    ) -> list[ConsumedPartition]:
        """Hold partitions, each from the group's offset; return the partitions to fetch."""
        added = []
        for topic, number in keys:
            start = committed.get((topic, number))
            partition = ConsumedPartition(
                topic,
                number,
                self.inbox,
                self.runtime.lock(),
                self.fetch_bytes,
                None if start is None else start.offset,
                self.queued_chunks,
            )
            self.partitions[topic, number] = partition
            added.append(partition)
        return added

    def keep_only(self, keys: Iterable[PartitionKey]) -> None:
        """Give up all partitions but these."""
        for key in set(self.partitions).difference(keys):
            self.partitions.pop(key).revoke()
            self.paused.discard(key)

    def discard(self) -> None:
        """Give up everything."""
        self.keep_only(())
        self._ready.clear()
        self.inbox.clear()

    def get(self, key: PartitionKey) -> ConsumedPartition:
        """Return a held partition.

        Raises:
            NotOwned: it is not held.
        """
        partition = self.partitions.get(key)
        if partition is None:
            raise NotOwned(f"{key[0]}-{key[1]} is not held by this consumer")
        return partition

    # -- positions

    def mark_processed(self) -> None:
        """Count the messages handed out as processed."""
        for partition in self.partitions.values():
            partition.progress.processed = partition.progress.delivered

    def processed(self) -> dict[PartitionKey, int]:
        """Return the offset after the processed messages of each partition, where there is one."""
        return positions(self.partitions, in_hand=False)

    def lag(self) -> dict[PartitionKey, int]:
        """Return how many offsets each partition is behind, as of its last fetch."""
        return lag(self.partitions)

    def positions(self) -> dict[PartitionKey, int]:
        """Return the next offset to hand out of each partition, where it is known."""
        return positions(self.partitions, in_hand=True)

    def position(self, key: PartitionKey) -> int | None:
        """Return the next offset to hand out, None while it is unknown."""
        position = self.get(key).position(in_hand=True)
        if position is None:
            # a partition without an offset gets its reset through the inbox
            self.collect(1)
            position = self.get(key).position(in_hand=True)
        if position is None:
            first = next((t for t in self._ready if t.partition.key == key and not t.stale), None)
            if first is not None and first.messages:
                return first.messages[0].offset
        return position

    # -- messages

    @property
    def has_messages(self) -> bool:
        """Whether messages are ready to hand out."""
        return any(taken.messages and not taken.stale for taken in self._ready)

    def collect(self, limit: int) -> bool:
        """Take messages out of the inbox if none are ready; return whether anything came.

        Raises:
            Exception: the error of the partition whose turn it is.
        """
        if self.has_messages:
            return False
        came = False
        while not self.has_messages:
            self._drain()
            # It returns moves of positions before an error, and raises the error next time.
            taken = self.inbox.take(limit, self.paused)
            if not taken:
                break
            came = True
            self._ready.extend(taken)
        return came

    def take_chunks(self, limit_bytes: int) -> list[Chunk]:
        """Take fetched chunks whole; the position moves past them.

        Raises:
            Exception: the error of the partition whose turn it is.
        """
        chunks = self.inbox.take_chunks(limit_bytes, self.paused)
        for chunk in chunks:
            chunk.progress.delivered = chunk.last_offset
        return chunks

    def hand_out(self) -> list[MessageAndMetadata]:
        """Return all ready messages."""
        messages: list[MessageAndMetadata] = []
        for taken in self._ready:
            if not taken.stale:
                messages.extend(taken.messages)
        self._drain()
        return messages

    def hand_out_singly(self) -> Iterator[MessageAndMetadata]:
        """Yield the ready messages; the position moves with each."""
        while self._ready:
            taken = self._ready[0]
            messages, partition, progress = taken.messages, taken.partition, taken.progress
            # A poll in between may empty it by `_drain`.
            while messages and partition.progress is progress:
                message = messages.popleft()
                progress.delivered = message[2]
                yield message
            if self._ready and self._ready[0] is taken:
                if not taken.stale:
                    progress.delivered = taken.end
                self._ready.popleft()

    def _drain(self) -> None:
        """Move the positions past all ready messages."""
        for taken in self._ready:
            if not taken.stale:
                taken.progress.delivered = taken.end
            taken.messages.clear()
        self._ready.clear()
