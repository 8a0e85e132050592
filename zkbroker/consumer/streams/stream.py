"""A stream: an iterator over the messages of the partitions that feed it.

    fetchers --put--> [chunk chunk ...] --take, decode--> messages --yield--> the reader

Invariants:
- One reader at a time; a partition feeds one stream, so its messages come in order.
- Other tasks never touch the reader's messages. They change the state (`paused`, `closed`, a
  partition's progress) and then set `_attention`; the reader checks it each time it comes back
  for a message, so nothing is handed out after a stop, a seek or the loss of the partition.
- `_parked` is set while the reader waits inside the stream: all messages it got are processed.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

from zkbroker.consumer.fetching.messages import (
    ConsumerTimeout,
    Decoder,
    ForkedConsumer,
    MessageAndMetadata,
    decoded,
)
from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.runtime import QueueEmpty, Runtime
from zkbroker.runtime.forks import abandon_in_child

# Most messages that a process paused beyond its session may still deliver: the lease is checked
# between slices, which is cheap, and not for each message, which would not be.
_SLICE = 32
_SLICES_A_BREATH = 8
_LEASE_POLL_S = 0.05


def _always() -> bool:
    return True


def _nothing() -> None:
    return None


class _Reading:
    """A decoded chunk in the hands of the reader; `error` is raised after its messages."""

    __slots__ = ("chunk", "error", "failed_at", "last_offset", "messages")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.messages: Iterator[MessageAndMetadata] = iter(())
        self.last_offset: int | None = None
        self.failed_at = chunk.offset
        self.error = chunk.error
        if chunk.error is not None:
            return
        topic, partition = chunk.partition.key
        found = chunk.partition.decode(topic, partition, chunk.records, chunk.offset)
        chunk.partition.counts.add(found.count, 0)
        self.messages = found.messages
        self.last_offset = found.last_offset
        if found.last_offset is not None:
            self.failed_at = found.last_offset + chunk.progress.step
        if found.error is not None:
            where = f"{topic}-{partition} at offset {self.failed_at}"
            self.error = type(found.error)(f"{where}: {found.error}", code=found.error.code)

    @property
    def stale(self) -> bool:
        return self.chunk.partition.progress is not self.chunk.progress

    @property
    def finished(self) -> bool:
        return self.last_offset is None or self.chunk.progress.delivered == self.last_offset


class KafkaStream:
    """Messages of one or more partitions, in order within each.

    Iterate over it in one thread or greenlet. It ends when the connector is shut down, and raises
    `ConsumerTimeout` when no message came for `consumer.timeout.ms`; after that, and after an
    error of a decoder or a partition, iteration can continue.

    Args:
        runtime: the connector's.
        timeout_ms: `consumer.timeout.ms`, -1 for none.
        key_decoder: for keys that are not null; bytes as they are without one.
        value_decoder: the same for values.
        on_room: called when a chunk was taken, so that fetchers ask for more.
        lease_valid: whether this member's ZooKeeper session may still be alive.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        timeout_ms: int = -1,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
        on_room: Callable[[], None] = _nothing,
        lease_valid: Callable[[], bool] = _always,
    ) -> None:
        self._runtime = runtime
        self._timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._key_decoder = key_decoder
        self._value_decoder = value_decoder
        self._on_room = on_room
        self._lease_valid = lease_valid
        # A reader that never waits must not keep other greenlets, such as ZooKeeper's heartbeat,
        # from running.
        self._breathe = partial(runtime.sleep, 0) if runtime.name == "gevent" else _nothing
        # Unbounded: `ConsumedPartition.has_room` is the bound, so that a fetcher never waits on
        # one stream while it could feed another.
        self._queue = runtime.queue(0)
        self._lock = runtime.lock()
        self._parked = runtime.event()
        self._parked.set()
        self._wake = runtime.event()
        self._attention = False
        self._paused: frozenset[str] = frozenset()
        self._closed = False
        self._forked = False
        abandon_in_child(self)
        self._reading: _Reading | None = None
        self._given: Chunk | None = None
        # One iterator for all callers: a generator that raised has ended, and the chain continues
        # with a new one, without a call for each message.
        self._iterator = chain.from_iterable(self._generators())

    def __iter__(self) -> Iterator[MessageAndMetadata]:
        return self._iterator

    def __next__(self) -> MessageAndMetadata:
        return next(self._iterator)

    def take_chunk(self, timeout_s: float) -> Chunk | None:
        """Return a message set as it was fetched, for callers that pass it on undecoded.

        It may begin with messages before its `offset` and end with a cut one. The set returned
        before counts as processed. Do not mix it with iteration.

        Args:
            timeout_s: how long to wait for it.

        Returns:
            None when none came in time, or the stream was closed.

        Raises:
            Exception: the error of the partition, which is fetched again from there.
        """
        given, self._given = self._given, None
        if given is not None:
            given.progress.processed = given.progress.delivered
        self._timeout_s = timeout_s
        try:
            while True:
                if (self._attention or not self._lease_valid()) and not self._attend():
                    return None
                chunk = self._take()
                if chunk is None:
                    continue
                if chunk.error is not None:
                    chunk.partition.seek(chunk.offset)
                    self._on_room()
                    raise chunk.error
                chunk.progress.delivered = chunk.last_offset
                self._given = chunk
                return chunk
        except ConsumerTimeout:
            return None

    def _generators(self) -> Iterator[Iterator[MessageAndMetadata]]:
        while not self._closed:
            yield self._messages()

    def _messages(self) -> Iterator[MessageAndMetadata]:
        decoders = self._key_decoder, self._value_decoder
        plain = decoders == (None, None)
        reading = self._reading
        if reading is not None:
            # The reader is back after an error that ended the former generator.
            progress = reading.chunk.progress
            progress.processed = progress.delivered
        slices = 0
        while True:
            if self._attention or not self._lease_valid():
                if not self._attend():
                    return
                reading = self._reading
            if reading is None:
                reading = self._next_reading()
                continue
            progress = reading.chunk.progress
            for message in islice(reading.messages, _SLICE):
                progress.delivered = offset = message[2]
                yield message if plain else decoded(message, *decoders)
                progress.processed = offset
                if self._attention:
                    break
            else:
                slices += 1
                if not slices % _SLICES_A_BREATH:
                    self._breathe()
                if reading.finished:
                    reading = None
                    self._finish()

    def _finish(self) -> None:
        """End a chunk: the position moves past entries that are no messages (control batches)."""
        reading, self._reading = self._reading, None
        if reading is None:
            return
        chunk = reading.chunk
        if reading.error is None:
            chunk.progress.delivered = chunk.progress.processed = chunk.last_offset
        elif not reading.stale:
            # Fetched again from here: a passing error goes away, a lasting one is raised again, and
            # a seek skips it.
            chunk.partition.seek(reading.failed_at)
            self._on_room()
            raise reading.error

    def _next_reading(self) -> _Reading | None:
        """Take and decode the next chunk; None when the state changed first."""
        chunk = self._take()
        if chunk is not None:
            self._reading = _Reading(chunk)
        return self._reading

    def _take(self) -> Chunk | None:
        self._parked.set()
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        self._breathe()
        while not self._attention:
            remaining = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                chunk: Chunk | None = self._queue.get(remaining)
            except QueueEmpty:
                raise self._timed_out() from None
            if chunk is None:
                continue
            chunk.partition.chunks_taken += 1
            self._on_room()
            if chunk.partition.progress is chunk.progress:
                self._parked.clear()
                return chunk
        return None

    def _attend(self) -> bool:
        """Act on the changes of other tasks; False when the stream has ended."""
        deadline = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while True:
            self._parked.set()
            self._attention = False
            self._wake.clear()
            if self._reading is not None and self._reading.stale:
                self._reading = None
            if self._closed:
                return False
            if self._forked:
                self._attention = True
                raise ForkedConsumer
            if not self._paused and self._lease_valid():
                if self._reading is not None:
                    self._parked.clear()
                if not self._attention:
                    return True
                continue
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise self._timed_out()
            if not self._paused:
                # A renewed lease wakes no reader.
                remaining = _LEASE_POLL_S if remaining is None else min(remaining, _LEASE_POLL_S)
            self._wake.wait(remaining)

    def _timed_out(self) -> ConsumerTimeout:
        return ConsumerTimeout(
            f"no message within consumer.timeout.ms={round((self._timeout_s or 0) * 1000)}"
        )

    # -- for the connector and the fetchers; only `settle` waits

    def put(self, chunk: Chunk) -> None:
        """Queue a chunk; called by its partition."""
        self._queue.put(chunk)

    @property
    def queued(self) -> int:
        """Chunks that wait to be read."""
        return self._queue.qsize()

    def pause(self, reason: str) -> None:
        """Hand out nothing more until `resume` with the same reason."""
        with self._lock:
            self._paused |= {reason}
        self.interrupt()

    def resume(self, reason: str) -> None:
        """Hand out messages again, unless there is another reason not to."""
        with self._lock:
            self._paused -= {reason}
        self.interrupt()

    def close(self) -> None:
        """End the iteration."""
        self._closed = True
        self.interrupt()

    def abandon_after_fork(self) -> None:
        """Make the reader raise; called in the child of a fork."""
        # Threads that held the locks do not exist in the child.
        self._parked, self._wake = self._runtime.event(), self._runtime.event()
        self._forked = self._attention = True

    def interrupt(self) -> None:
        """Make the reader check the state before it gets another message."""
        self._attention = True
        self._wake.set()
        self._queue.put(None)

    def settle(self, timeout_s: float) -> bool:
        """After a `pause`, wait for the reader to come back; False when it has not."""
        return self._parked.wait(timeout_s)

    def clear(self) -> None:
        """Drop the waiting chunks; their partitions must be revoked."""
        interrupted = False
        while True:
            try:
                chunk = self._queue.get(0)
            except QueueEmpty:
                break
            if chunk is None:
                interrupted = True
            else:
                chunk.partition.chunks_taken += 1
        if interrupted:
            # The reader may be waiting for it by now.
            self._queue.put(None)
