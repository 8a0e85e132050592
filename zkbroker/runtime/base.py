"""The interface that the runtimes implement."""

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from queue import Empty as QueueEmpty
from queue import Full as QueueFull
from types import TracebackType
from typing import Any, Protocol, TypeVar

__all__ = [
    "Event",
    "Lock",
    "Park",
    "Queue",
    "QueueEmpty",
    "QueueFull",
    "Runtime",
    "Task",
    "finish_anyway",
    "unparked",
]

T = TypeVar("T")
Q = TypeVar("Q")

Park = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""Releases a request's slot while it waits; called with the function that wakes the request if its
client disconnects."""


def unparked(wake: Callable[[], object]) -> AbstractContextManager[None]:
    """Do nothing: a `Park` for a caller that holds nothing that others need."""
    return nullcontext()


def finish_anyway() -> None:
    """Do nothing when the client disconnects: for a wait that finishes its work regardless."""


class Task(Protocol):
    """A running function. An exception that leaves it is logged with its traceback."""

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the function returned; False when it still runs after `timeout_s`.

        Called by the function itself, it returns False at once.
        """

    @property
    def alive(self) -> bool:
        """Whether the function still runs."""


class Event(Protocol):
    """A flag to wait for. `set` may be called from any thread or greenlet."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...
    def wait(self, timeout_s: float | None = None, /) -> bool:
        """Wait until set; False when `timeout_s` passed first."""


class Lock(Protocol):
    """Mutual exclusion, re-entrant. Never hold one over a network or ZooKeeper call.

    A lock of greenlets has an attribute `depth`: how many times it is entered now. While that is 0,
    the lock stays free until the current greenlet waits, so code that never waits may do without
    it. Locks of threads have no such attribute: another thread may enter them at any time.
    """

    def __enter__(self) -> object: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> object: ...


class Queue(Protocol[Q]):
    """A bounded first-in-first-out queue."""

    def put(self, item: Q, timeout_s: float | None = None) -> None:
        """Add an item; wait while full.

        Raises:
            QueueFull: still full after `timeout_s` (0: do not wait).
        """

    def get(self, timeout_s: float | None = None) -> Q:
        """Take the oldest item; wait while empty.

        Raises:
            QueueEmpty: still empty after `timeout_s` (0: do not wait).
        """

    def qsize(self) -> int: ...


class QueueOver:
    """A `Queue` over a `queue.Queue`, or one of another library with its methods."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.qsize = queue.qsize

    def put(self, item: Any, timeout_s: float | None = None) -> None:
        self._queue.put(item, block=timeout_s is None or timeout_s > 0, timeout=timeout_s or None)

    def get(self, timeout_s: float | None = None) -> Any:
        return self._queue.get(block=timeout_s is None or timeout_s > 0, timeout=timeout_s or None)


class Runtime(Protocol):
    """Tasks, time, synchronisation and sockets of one kind of concurrency."""

    @property
    def name(self) -> str:
        """`threads` or `gevent`."""

    def spawn(self, function: Callable[..., object], *args: Any, name: str) -> Task:
        """Run `function(*args)` concurrently; it does not keep the interpreter alive."""

    def clock_ms(self) -> int:
        """Return monotonic milliseconds: for time-outs and ages."""

    def now_ms(self) -> int:
        """Return the time of day in milliseconds since 1970: for what is stored or shown."""

    def sleep(self, seconds: float) -> None:
        """Wait; 0 lets every other task run that can."""

    def event(self) -> Event: ...

    def lock(self) -> Lock: ...

    def guard(self) -> Lock:
        """Return a lock for a few steps that neither wait nor switch tasks; not re-entrant.

        It is an operating system lock under either runtime: cheap, and safe between threads.
        """

    def queue(self, maxsize: int) -> Queue[Any]: ...

    def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        """Open a TCP connection, IPv4 or IPv6, without delay of small writes.

        The socket is in blocking mode; its calls wait cooperatively under gevent.

        Raises:
            OSError: it cannot be opened within `timeout_s`.
        """

    def offload(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that blocks on disk or CPU without stopping other tasks."""
