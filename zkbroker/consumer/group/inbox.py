"""Fetched chunks on their way to `poll`.

Invariant: chunks of one partition come out in the order in which they were fetched. Chunks of a
reading that is over (a seek, a loss) are dropped; those of a paused partition stay and still count
towards the bound.
"""

from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from zkbroker.consumer.fetching.decode import decode_chunk
from zkbroker.consumer.fetching.messages import Decoder, MessageAndMetadata, decoded
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition, ReadProgress
from zkbroker.errors import ProtocolError
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey


@dataclass(slots=True)
class Taken:
    """Messages from one reading of a partition.

    Args:
        partition: where they are from.
        progress: their reading; they are stale when it is over.
        messages: in order; may be empty where only the position moves.
        end: the last offset that the reader has passed after all of them.
    """

    partition: ConsumedPartition
    progress: ReadProgress
    messages: deque[MessageAndMetadata]
    end: int

    @property
    def stale(self) -> bool:
        """Whether the partition was sought elsewhere, or given up."""
        return self.partition.progress is not self.progress


@dataclass(slots=True)
class _OpenChunk:
    """A chunk that is being read."""

    messages: Iterator[MessageAndMetadata]
    last_offset: int | None
    error: ProtocolError | None
    taken: int | None = None


class Inbox:
    """The queue into which fetchers put chunks and from which `poll` takes messages.

    Args:
        runtime: for the lock.
        arrived: called after each chunk; must not wait.
        key_decoder: turns the bytes of a key into an object; not called for null.
        value_decoder: the same for values.
    """

    def __init__(
        self,
        runtime: Runtime,
        arrived: Callable[[], None],
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> None:
        self._lock = runtime.lock()
        self._arrived = arrived
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._chunks: deque[Chunk] = deque()
        self._open: dict[Chunk, _OpenChunk] = {}

    @property
    def queued(self) -> int:
        """Chunks that wait."""
        return len(self._chunks)

    def put(self, chunk: Chunk) -> None:
        """Queue a chunk; never waits."""
        with self._lock:
            self._chunks.append(chunk)
        self._arrived()

    def take(self, limit: int, paused: Container[PartitionKey]) -> list[Taken]:
        """Take messages.

        Args:
            limit: how many at most.
            paused: partitions to skip.

        Raises:
            Exception: the error of the partition whose turn it is, or of a decoder; only when
                there is no message and no move of a position to return first.
        """
        taken: list[Taken] = []
        kept: list[Chunk] = []
        count = 0
        try:
            while count < limit:
                with self._lock:
                    if not self._chunks:
                        break
                    chunk = self._chunks.popleft()
                if chunk.partition.progress is not chunk.progress:
                    self._finish(chunk)
                    continue
                if chunk.partition.key in paused:
                    kept.append(chunk)
                    continue
                try:
                    found, used_up = self._read(chunk, limit - count, first=not taken)
                except BaseException:
                    if chunk in self._open:
                        kept.append(chunk)  # a decoder failed: later messages are good
                    raise
                if found is not None:
                    taken.append(found)
                    count += len(found.messages)
                if not used_up:
                    kept.append(chunk)
                    break
        finally:
            with self._lock:
                self._chunks.extendleft(reversed(kept))
        return taken

    def take_chunks(self, limit_bytes: int, paused: Container[PartitionKey]) -> list[Chunk]:
        """Take chunks as they were fetched; the first one may be larger than the limit.

        Args:
            limit_bytes: how much at most; nothing is taken for 0.
            paused: partitions to skip.

        Raises:
            Exception: the error of the partition whose turn it is; only when there is no chunk to
                return first.
        """
        taken: list[Chunk] = []
        left = limit_bytes
        with self._lock:
            waiting, self._chunks = self._chunks, deque()
        kept: list[Chunk] = []
        failed: Exception | None = None
        while waiting:
            chunk = waiting.popleft()
            if chunk.partition.progress is not chunk.progress:
                self._finish(chunk)
            elif chunk.partition.key in paused:
                kept.append(chunk)
            elif left <= 0 or (taken and len(chunk.records) > left):
                kept.append(chunk)
                break
            elif chunk.error is None:
                self._finish(chunk)
                taken.append(chunk)
                left -= len(chunk.records)
            else:
                if taken:
                    kept.append(chunk)
                else:
                    self._finish(chunk)
                    failed = chunk.error
                break
        with self._lock:
            self._chunks.extendleft(reversed([*kept, *waiting]))
        if failed is not None:
            raise failed
        return taken

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            dropped, self._chunks = self._chunks, deque()
        for chunk in dropped:
            self._finish(chunk)

    def _read(self, chunk: Chunk, limit: int, *, first: bool) -> tuple[Taken | None, bool]:
        """Read on in a chunk; return whether it is used up."""
        if chunk.error is not None:
            if not first:
                return None, False
            self._finish(chunk)
            raise chunk.error
        opened = self._opened(chunk)
        messages = self._messages(opened, limit, first=first)
        if messages:
            opened.taken = messages[-1].offset
        if opened.taken != opened.last_offset:
            return self._found(chunk, messages, opened.taken), False
        if opened.error is not None:
            if messages or not first:
                return self._found(chunk, messages, opened.taken), False
            self._finish(chunk)
            # Chunks that were fetched after this one become stale: returning them would skip what
            # could not be decoded.
            bad = chunk.offset if opened.taken is None else opened.taken + 1
            chunk.partition.seek(bad, halted=True)
            raise opened.error
        self._finish(chunk)
        return self._found(chunk, messages, chunk.next_offset - 1), True

    @staticmethod
    def _found(chunk: Chunk, messages: deque[MessageAndMetadata], end: int | None) -> Taken | None:
        return None if end is None else Taken(chunk.partition, chunk.progress, messages, end)

    def _messages(
        self, opened: _OpenChunk, limit: int, *, first: bool
    ) -> deque[MessageAndMetadata]:
        if self._key_decoder is None and self._value_decoder is None:
            return deque(islice(opened.messages, limit))
        found: deque[MessageAndMetadata] = deque()
        for message in islice(opened.messages, limit):
            try:
                found.append(decoded(message, self._key_decoder, self._value_decoder))
            except Exception:
                if first and not found:
                    opened.taken = message.offset  # the next call continues after it
                    raise
                opened.messages = chain((message,), opened.messages)
                break
        return found

    def _opened(self, chunk: Chunk) -> _OpenChunk:
        opened = self._open.get(chunk)
        if opened is None:
            found = decode_chunk(*chunk.partition.key, chunk.records, chunk.offset)
            chunk.partition.counts.add(found.count, 0)
            opened = _OpenChunk(found.messages, found.last_offset, found.error)
            self._open[chunk] = opened
        return opened

    def _finish(self, chunk: Chunk) -> None:
        self._open.pop(chunk, None)
        chunk.partition.chunks_taken += 1
