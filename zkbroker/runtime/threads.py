"""The runtime on operating system threads."""

import logging
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from zkbroker.runtime.base import Event, Lock, Queue, QueueOver, Task

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _ThreadTask:
    def __init__(self, function: Callable[..., object], args: tuple[Any, ...], name: str) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(function, args), name=name, daemon=True
        )
        self._thread.start()

    @staticmethod
    def _run(function: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            function(*args)
        except Exception:
            logger.exception("task failed name=%s", threading.current_thread().name)

    def join(self, timeout_s: float | None = None) -> bool:
        if self._thread is threading.current_thread():
            return False  # a thread cannot join itself, as when a callback closes its client
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()


class ThreadsRuntime:
    """Tasks are daemon threads; blocking calls block only their own thread."""

    name = "threads"

    def spawn(self, function: Callable[..., object], *args: Any, name: str) -> Task:
        return _ThreadTask(function, args, name)

    def clock_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def event(self) -> Event:
        return threading.Event()

    def lock(self) -> Lock:
        return threading.RLock()

    def guard(self) -> Lock:
        return threading.Lock()

    def queue(self, maxsize: int) -> Queue[Any]:
        return QueueOver(queue.Queue(maxsize))

    def connect(self, host: str, port: int, timeout_s: float) -> socket.socket:
        connection = socket.create_connection((host, port), timeout_s)
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def offload(self, function: Callable[..., T], *args: Any) -> T:
        return function(*args)
