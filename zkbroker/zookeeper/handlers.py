"""The sockets of the ZooKeeper client: how its task is woken, and how it waits for its connection.

Invariant: a wake-up is a byte in a pair of sockets; no second one is written while the first is not
taken, so that to ask for thousands of nodes wakes the task once.
"""

import contextlib
import importlib
import select
import socket
import time
from typing import Any

from zkbroker.config.tls import TlsSettings
from zkbroker.runtime import Runtime
from zkbroker.zookeeper.tls import has_decrypted, shake_hands

READY_IN_A_ROW = 20
"""Reads and writes that need not wait, before other tasks get their turn."""


class WakeUp:
    """A pair of sockets that wakes the connection's task; neither side ever waits."""

    def __init__(self) -> None:
        self._read, self._write = socket.socketpair()
        self._read.setblocking(False)
        self._write.setblocking(False)
        self._woken = False

    def send(self, data: bytes) -> int:
        """Wake the task; where it is awake already, nothing is written."""
        # It looks at its requests after it took the wake-up, so that it finds this one.
        if not self._woken:
            self._woken = True
            with contextlib.suppress(BlockingIOError):  # full of wake-ups
                self._write.send(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        """Take nothing: the wake-ups were taken before the first request was sent."""
        return b""

    def empty(self) -> None:
        """Take every wake-up; to be called before the requests are looked at."""
        with contextlib.suppress(BlockingIOError):
            while self._read.recv(4096):
                pass
        self._woken = False

    def fileno(self) -> int:
        return self._read.fileno()

    def close(self) -> None:
        self._read.close()
        self._write.close()


def new_handler(runtime: Runtime, longest_s: float, tls: TlsSettings | None) -> Any:
    """Make what kazoo waits, and keeps results, with.

    Args:
        runtime: what the client's tasks run on.
        longest_s: for one attempt to connect, in seconds.
        tls: of the connection.
    """
    module, name = {
        "gevent": ("kazoo.handlers.gevent", "SequentialGeventHandler"),
        "threads": ("kazoo.handlers.threading", "SequentialThreadingHandler"),
    }[runtime.name]
    # Imported when asked for: a user of threads need not pay for gevent.
    library = importlib.import_module(module)
    base: Any = getattr(library, name)

    class Result(library.AsyncResult):  # type: ignore[misc, name-defined] # one of two, known at run time
        """The result of a request, which knows when it was asked for."""

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.made_at = time.monotonic()

    class Handler(base):  # type: ignore[misc] # one of two, known at run time
        def create_connection(self, *args: Any, **options: Any) -> Any:
            options["timeout"] = min(options.get("timeout") or longest_s, longest_s)
            started = time.monotonic()
            plain = super().create_connection(*args, **options)
            if tls is None:
                return plain
            left_s = options["timeout"] - (time.monotonic() - started)
            return shake_hands(plain, tls, options["hostname"], left_s, self.select)

        def create_socket_pair(self) -> tuple[WakeUp, WakeUp]:
            # What reads it and what writes it know of each other.
            wake_up = WakeUp()
            return wake_up, wake_up

        def select(
            self, readers: list[Any], writers: list[Any], errors: list[Any], timeout: float | None
        ) -> Any:
            ready = ready_now(readers, writers, has_decrypted(readers))
            if ready is None:
                return super().select(readers, writers, errors, timeout)
            self.found_ready = getattr(self, "found_ready", 0) + 1
            if not self.found_ready % READY_IN_A_ROW:
                self.sleep_func(0)
            return ready

        def async_result(self) -> Any:
            return Result(self) if runtime.name == "threads" else Result()

    return Handler()


def ready_now(
    readers: list[Any], writers: list[Any], decrypted: list[Any] | None = None
) -> tuple[list[Any], list[Any], list[Any]] | None:
    """Return which sockets can be read and written without waiting; None for none, or for errors.

    Kazoo makes a selector for every read and every write, which under gevent costs more than all
    the rest of a request; of most sockets this call of the operating system knows at once.

    Args:
        readers: to read.
        writers: to write.
        decrypted: those of the readers that hold bytes, of which the system knows nothing.
    """
    poller = select.poll()
    sockets = {}
    for wanted, event in ((readers, select.POLLIN), (writers, select.POLLOUT)):
        for each in wanted:
            descriptor = each.fileno()
            if descriptor < 0 or descriptor in sockets:
                return None
            sockets[descriptor] = each
            poller.register(descriptor, event)
    found = poller.poll(0)
    failed = any(events & ~(select.POLLIN | select.POLLOUT) for _, events in found)
    if failed or not (found or decrypted):
        return None
    can_be_read = [sockets[descriptor] for descriptor, events in found if events & select.POLLIN]
    can_be_read += [each for each in decrypted or () if each not in can_be_read]
    can_be_written = [
        sockets[descriptor] for descriptor, events in found if events & select.POLLOUT
    ]
    return can_be_read, can_be_written, []
