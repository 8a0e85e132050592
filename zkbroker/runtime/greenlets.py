"""The runtime on gevent, without monkey-patching."""

import logging
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

import gevent
import gevent.event
import gevent.lock
import gevent.monkey
import gevent.queue
import gevent.socket

from zkbroker.runtime.base import Event, Lock, Queue, QueueOver, Task

logger = logging.getLogger(__name__)

T = TypeVar("T")

_allocate_lock = gevent.monkey.get_original("_thread", "allocate_lock")
_HIGHEST_PRIORITY = 2  # of an event of libev


def yield_turn() -> None:
    """Let every other ready greenlet run, including those whose sockets and timers are due.

    `gevent.sleep(0)` checks sockets and timers only after fifty such calls. An idle event of the
    highest priority is due after each check.
    """
    gevent.idle(_HIGHEST_PRIORITY)


class _GreenletTask:
    def __init__(self, function: Callable[..., object], args: tuple[Any, ...], name: str) -> None:
        self._name = name
        self._greenlet = gevent.spawn(self._run, function, args)

    def _run(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            function(*args)
        except Exception:
            logger.exception("task failed name=%s", self._name)

    def join(self, timeout_s: float | None = None) -> bool:
        if self._greenlet is gevent.getcurrent():
            return False  # as on threads
        self._greenlet.join(timeout_s)
        return bool(self._greenlet.ready())

    @property
    def alive(self) -> bool:
        return not self._greenlet.ready()


class _Expired(BaseException):
    """The time limit of one wait has passed."""


class _GreenletEvent(gevent.event.Event):  # type: ignore[misc]
    """gevent's event with cheaper timed waits, such as those of fetches: they cost a quarter less.

    A timer ends the wait as `gevent.Timeout` would, without a new object for each wait.
    """

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None or timeout <= 0 or self.is_set():
            return bool(super().wait(timeout))
        expired = _Expired()
        timer = gevent.get_hub().loop.timer(timeout)
        # The loop's clock stands still while a greenlet runs: the time counts from now.
        timer.start(gevent.getcurrent().throw, expired, update=True)
        try:
            return bool(super().wait())
        except _Expired as error:
            if error is not expired:
                raise
            return bool(self.is_set())
        finally:
            timer.stop()
            timer.close()
            del expired  # Its traceback refers to this frame: each timed-out wait would be a cycle.


class _GreenletLock:
    """A mutex. Each request enters several; gevent's RLock makes six calls per entry, this two.

    Invariant: `depth` is above 0 exactly while the greenlet `_owner` has `_free`.
    """

    __slots__ = ("_free", "_owner", "depth")

    def __init__(self) -> None:
        self._free = gevent.lock.Semaphore(1)
        self._owner: object = None
        self.depth = 0

    def __enter__(self) -> None:
        me = gevent.getcurrent()
        if self._owner is not me:
            self._free.acquire()
            self._owner = me
        self.depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.depth -= 1
        if not self.depth:
            self._owner = None
            self._free.release()


class GreenletsRuntime:
    """Tasks are greenlets of the calling thread's hub; `offload` uses the hub's thread pool."""

    name = "gevent"

    def spawn(self, function: Callable[..., object], *args: Any, name: str) -> Task:
        return _GreenletTask(function, args, name)

    def clock_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            gevent.sleep(seconds)
        else:
            yield_turn()

    def event(self) -> Event:
        return cast("Event", _GreenletEvent())

    def lock(self) -> Lock:
        return _GreenletLock()

    def guard(self) -> Lock:
        # Two greenlets never contend for it, since no greenlet switches while it is held.
        return cast("Lock", _allocate_lock())

    def queue(self, maxsize: int) -> Queue[Any]:
        # gevent takes None, not 0, for "no bound".
        return QueueOver(gevent.queue.Queue(maxsize or None))

    def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        connection = gevent.socket.create_connection((host, port), timeout_s)
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cast("socket.socket", connection)

    def offload(self, function: Callable[..., T], *args: Any) -> T:
        # gevent would print an exception in the pool's thread, although it is also raised here.
        value, error = gevent.get_hub().threadpool.apply(_outcome, (function, args))
        if error is not None:
            raise error
        return cast("T", value)


def _outcome(
    function: Callable[..., T], args: tuple[Any, ...]
) -> tuple[T | None, BaseException | None]:
    try:
        return function(*args), None
    except BaseException as error:  # noqa: BLE001 - raised again by the caller
        return None, error
