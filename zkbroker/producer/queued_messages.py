"""Messages of one topic that were queued together, and the future of one of them.

    records   [r0, r1, r2, r3, …]        encoded messages, in the order of `send`
    places    ((0, 2, …), batch a, 0)    their batches: indices, batch, position of the first
              ((1, 3, …), batch b, 7)

Invariants: a message is resolved exactly once, by its batch or by an error of its own, and every
waiter runs exactly once, whether it was added before or after.

A message that waits for its answer is a tuple of bytes here, in a list; only the caller of `send`
keeps its future. So the garbage collector has nothing to scan however many messages are open, and a
batch of them is resolved in one step.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from zkbroker.errors import RequestTimedOut
from zkbroker.producer.message import Headers, KeyedMessage, RecordMetadata
from zkbroker.runtime import Runtime

if TYPE_CHECKING:
    from zkbroker.producer.batch import Batch

logger = logging.getLogger(__name__)

EncodedRecord = tuple[bytes | None, bytes | None, int, Headers]
"""Key, value, timestamp in ms, headers: the form that the records room encodes."""


_Waiter = list[Callable[[], object]]


class QueuedMessages:
    """Messages of one topic, in order.

    Attributes:
        first_at: `time.monotonic()` when the first one came, in s.
        sizes: bytes of each that count against the bounds.
        keyless: whether each of them may go to any partition.
        kept: messages that are more than their record, by index.
        waiters: functions to call once a message is resolved, by index; each in a cell that its
            caller empties.
        observed: indices of failed messages whose error was read.
    """

    __slots__ = (
        "_errors",
        "first_at",
        "kept",
        "keyless",
        "observed",
        "places",
        "records",
        "runtime",
        "sizes",
        "topic",
        "waiters",
    )

    def __init__(self, topic: str, first_at: float, runtime: Runtime) -> None:
        self.topic = topic
        self.first_at = first_at
        self.runtime = runtime
        self.records: list[EncodedRecord] = []
        self.sizes: list[int] = []
        self.keyless = True
        self.kept: dict[int, KeyedMessage] = {}
        self.places: list[tuple[Sequence[int], Batch, int]] = []
        self.waiters: dict[int, list[_Waiter]] = {}
        self.observed: set[int] = set()
        self._errors: dict[int, BaseException] = {}

    def keep(self, index: int, message: KeyedMessage) -> None:
        """Keep a message that is more than its record."""
        self.kept[index] = message
        self.keyless &= (
            message.key is None and message.partition is None and message.partition_key is None
        )

    def drop(self, index: int) -> None:
        """Remove the message at an index and those after it."""
        del self.records[index:]
        del self.sizes[index:]
        self.kept.pop(index, None)

    def replace(self, index: int, message: KeyedMessage, record: EncodedRecord, size: int) -> None:
        """Replace a message that is not sent yet."""
        self.records[index] = record
        self.sizes[index] = size
        self.keep(index, message)

    def message(self, index: int) -> KeyedMessage:
        """Return a message: the one given to `send`, or an equal one where it held only bytes."""
        if index not in self.kept:
            key, value, timestamp_ms, _ = self.records[index]
            self.kept[index] = KeyedMessage(self.topic, value, key=key, timestamp_ms=timestamp_ms)
        return self.kept[index]

    def find(self, index: int) -> "tuple[Batch, int] | None":
        """Return the batch of a message and its position in it; None before it has one."""
        for indices, batch, start in self.places:
            at = bisect_left(indices, index)
            if at < len(indices) and indices[at] == index:
                return batch.descend(start + at)
        return None

    def done(self, index: int) -> bool:
        """Whether the outcome of a message is known."""
        if index in self._errors:
            return True
        found = self.find(index)
        return found is not None and found[0].resolved

    def error(self, index: int) -> BaseException | None:
        """Return why a resolved message was not stored; None where it was."""
        error = self._errors.get(index)
        if error is None:
            found = self.find(index)
            assert found is not None
            error = found[0].error
        return error

    def all_stored(self) -> bool:
        """Whether every message is stored; also False where that takes more than one check."""
        return (
            not self._errors
            and sum(len(indices) for indices, _, _ in self.places) == len(self.records)
            and all(batch.resolved and batch.error is None for _, batch, _ in self.places)
        )

    def fail(self, indices: Iterable[int], error: BaseException) -> None:
        """Resolve messages to an error of their own."""
        for index in indices:
            self._errors[index] = error
        if self.waiters:
            self.wake()

    def forget(self, batch: "Batch") -> None:
        """Undo the assignment of messages to a batch that may still change."""
        self.places = [place for place in self.places if place[1] is not batch]

    # -- waiting

    def add_waiter(self, index: int, function: Callable[[], object]) -> None:
        """Call `function()` once the outcome of a message is known."""
        cell: _Waiter = [function]
        self.waiters.setdefault(index, []).append(cell)
        # The outcome may have come before the waiter was registered.
        if self.done(index):
            _call(cell)

    def wake(self) -> None:
        """Call the waiters of every resolved message."""
        for index in list(self.waiters):
            if self.done(index):
                for cell in self.waiters.pop(index, ()):
                    _call(cell)


def _call(cell: _Waiter) -> None:
    try:
        function = cell.pop()
    except IndexError:  # another task called it
        return
    try:
        function()
    except Exception:
        # A user's code, in the task that takes the answers of all others.
        logger.exception("callback failed function=%r", function)


class SendFuture:
    """Resolves to `RecordMetadata`, or to the error that kept the message from being stored."""

    __slots__ = ("index", "queued")

    def __init__(self, queued: QueuedMessages, index: int) -> None:
        self.queued = queued
        self.index = index

    @property
    def message(self) -> KeyedMessage:
        """The message, or an equal one where the one given to `send` held only bytes."""
        return self.queued.message(self.index)

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self.queued.done(self.index)

    def result(self, timeout_s: float | None = None) -> RecordMetadata:
        """Wait for the outcome.

        Raises:
            RequestTimedOut: it is not known after `timeout_s`; the message is still open.
            ClientError: the message was not stored, or it cannot be known whether it was.
        """
        error = self.exception(timeout_s)
        if error is not None:
            # All messages of a batch have one error, which would gain frames with each of them.
            raise error.with_traceback(None)
        found = self.queued.find(self.index)
        assert found is not None
        batch, position = found
        return batch.metadata(position)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """Wait for the outcome; return the error, or None where the message was stored.

        Raises:
            RequestTimedOut: it is not known after `timeout_s`.
        """
        if not self.done() and not self._wait(timeout_s):
            raise RequestTimedOut(
                f"no outcome for the message to topic {self.queued.topic} within {timeout_s} s; "
                "it is still under way"
            )
        error = self.queued.error(self.index)
        if error is not None:
            self.queued.observed.add(self.index)
        return error

    def add_done_callback(self, function: Callable[["SendFuture"], object]) -> None:
        """Call `function(future)` once the outcome is known, at once where it is.

        It runs in the task that learns the outcome: be short, and do not wait in it.
        """
        self.queued.observed.add(self.index)
        self.queued.add_waiter(self.index, lambda: function(self))

    def _wait(self, timeout_s: float | None) -> bool:
        event = self.queued.runtime.event()
        self.queued.add_waiter(self.index, event.set)
        return event.wait(timeout_s)

    def __repr__(self) -> str:
        state: object = "pending"
        if self.done():
            state = self.queued.error(self.index) or "sent"
        return f"<SendFuture topic={self.queued.topic!r} {state!r}>"


Part = tuple[QueuedMessages, Sequence[int]]
"""Some messages of a list, by ascending index."""


def whole(queued: QueuedMessages) -> Part:
    """Return a part with all messages of a list."""
    return queued, range(len(queued.records))


def futures_of(parts: Iterable[Part]) -> list[SendFuture]:
    """Return the futures of every message of `parts`, in order."""
    return [SendFuture(queued, index) for queued, indices in parts for index in indices]


def parts_of(futures: Iterable[SendFuture]) -> list[Part]:
    """Return the fewest parts with the messages of `futures` in their order."""
    parts: list[tuple[QueuedMessages, list[int]]] = []
    for future in futures:
        if parts and parts[-1][0] is future.queued and parts[-1][1][-1] < future.index:
            parts[-1][1].append(future.index)
        else:
            parts.append((future.queued, [future.index]))
    return [(queued, indices) for queued, indices in parts]
