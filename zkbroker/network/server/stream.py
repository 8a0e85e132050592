"""A non-blocking socket on gevent's hub: receive, and send bytes and slices of files.

Invariant: every wait is a wait of the calling greenlet alone. A file slice goes out by
`os.sendfile`, at most `SENDFILE_BYTES` a call, so that one reader of much data cannot keep the hub;
pages that are not in the page cache are read by the hub's thread pool first, since `sendfile` would
stop every connection for the disk. A small slice that is in the page cache is copied and leaves
with what stands before and behind it: two calls of the system for four.
"""

import errno
import os
import socket
import time
from collections.abc import Sequence

from gevent.hub import Hub

from zkbroker.errors import StorageError
from zkbroker.fileslice import FileSlice
from zkbroker.network.server.busy_poll import BusyPoll
from zkbroker.network.transport import Part
from zkbroker.runtime.greenlets import yield_turn
from zkbroker.security import ANONYMOUS, Principal

SENDFILE_BYTES = 512 * 1024
_JOIN_BYTES = 64 * 1024
_COPIED_BYTES = 8 * 1024
_RUN_S = 0.002
_CANNOT_TELL = (errno.EOPNOTSUPP, errno.EINVAL)


class HubStream:
    """One connected socket of one greenlet (the reader of a connection is also its writer).

    Args:
        connection: the socket; it becomes non-blocking and the stream owns it.
        hub: the hub that waits.
    """

    __slots__ = (
        "_drained",
        "_hub",
        "_read_watcher",
        "_socket",
        "_write_watcher",
        "active_at",
        "busy_poll",
        "run_until",
    )

    def __init__(self, connection: socket.socket, hub: Hub) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._hub = hub
        self._read_watcher = hub.loop.io(connection.fileno(), 1)
        self._write_watcher = hub.loop.io(connection.fileno(), 2)
        self._drained = False
        self.busy_poll: BusyPoll | None = None
        """Looks for the next request before the hub waits for it."""
        self.active_at = time.monotonic()
        """When the last byte went in or out."""
        self.run_until = self.active_at + _RUN_S
        """When `pace` lets others run, on the monotonic clock."""

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._socket.fileno()

    def receive_into(self, view: memoryview) -> int:
        """Wait for bytes and return how many came; 0 at the end of the stream."""
        if self._drained:
            # The last call took all there was: a client that waits for its answer has sent no more,
            # and asking in vain costs more than waiting.
            poll = self.busy_poll
            now = self.active_at
            if poll is None or now < poll.rests_until or not poll.ready(now):
                now = self._wait(self._read_watcher)
            else:
                now = time.monotonic()
        else:
            now = time.monotonic()
        while True:
            try:
                count = self._socket.recv_into(view)
            except BlockingIOError:
                now = self._wait(self._read_watcher)
                continue
            self._drained = count < len(view)
            self.active_at = now
            return count

    def send(self, parts: Sequence[Part]) -> None:
        """Send all parts in order. The slices stay open: the caller closes them.

        Raises:
            OSError: the connection was lost.
            StorageError: a file is shorter than its slice says; the connection must be closed.
        """
        if len(parts) == 1 and not isinstance(parts[0], FileSlice):
            self._send_all(parts[0], 0)
            return
        small: list[bytes | bytearray | memoryview] = []
        gathered = 0
        for each in parts:
            part: Part = each
            if isinstance(part, FileSlice):
                size = part.size
                part = _copied(part) or part
            else:
                size = len(part)
            alone = size >= _JOIN_BYTES or isinstance(part, FileSlice)
            if small and (alone or gathered >= _JOIN_BYTES):
                self._send_all(b"".join(small), socket.MSG_MORE)
                small, gathered = [], 0
            if isinstance(part, FileSlice):
                self._send_file(part)
            elif alone:
                self._send_all(part, 0)
            else:
                small.append(part)
                gathered += size
        if small:
            self._send_all(small[0] if len(small) == 1 else b"".join(small), 0)

    def begin(self) -> Principal:
        """Do nothing before the first request: a plain connection has no principal."""
        return ANONYMOUS

    def pace(self) -> None:
        """Let other greenlets run when this one has run long without waiting."""
        if time.monotonic() > self.run_until:
            yield_turn()
            self.run_until = time.monotonic() + _RUN_S

    def shut_down(self, how: int) -> None:
        """Shut down one direction or both; wakes the greenlet that waits there."""
        try:
            self._socket.shutdown(how)
        except OSError:
            pass  # the peer was faster

    def close(self) -> None:
        self._read_watcher.close()
        self._write_watcher.close()
        self._socket.close()

    def _wait(self, watcher: object) -> float:
        """Wait for a watcher; return when it was due, on the monotonic clock."""
        self._hub.wait(watcher)
        now = time.monotonic()
        self.run_until = now + _RUN_S
        return now

    def _send_all(self, data: bytes | bytearray | memoryview, flags: int) -> None:
        left = data
        while True:
            try:
                sent = self._socket.send(left, flags)
            except BlockingIOError:
                self._wait(self._write_watcher)
                continue
            self.active_at = time.monotonic()
            if sent == len(left):
                return
            left = memoryview(left)[sent:]
            self.pace()

    def _send_file(self, part: FileSlice) -> None:
        position = part.position
        end = position + part.size
        out = self._socket.fileno()
        checked = position
        while position < end:
            size = min(end - position, SENDFILE_BYTES)
            if position >= checked:
                if not in_page_cache(part.fd, position, size):
                    self._hub.threadpool.apply(read_ahead, (part.fd, position, size))
                checked = position + size
            try:
                sent = os.sendfile(out, part.fd, position, size)
            except BlockingIOError:
                self._wait(self._write_watcher)
                continue
            if sent == 0:
                raise StorageError(
                    f"a log file ends {end - position} bytes before the slice being sent"
                )
            position += sent
            self.active_at = time.monotonic()
            self.pace()


def _copied(part: FileSlice) -> bytearray | None:
    """Return the bytes of a small slice; None for a large one, or one that the disk must bring."""
    if part.size > _COPIED_BYTES:
        return None
    data = bytearray(part.size)
    try:
        count = os.preadv(part.fd, (data,), part.position, os.RWF_NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in _CANNOT_TELL:
            raise
        # A file system that cannot tell, such as tmpfs, is taken to be in memory.
        count = os.preadv(part.fd, (data,), part.position)
    return data if count == part.size else None


def in_page_cache(fd: int, position: int, size: int) -> bool:
    """Tell whether the first and last byte can be read without the disk."""
    probe = (bytearray(1),)
    try:
        os.preadv(fd, probe, position, os.RWF_NOWAIT)
        os.preadv(fd, probe, position + size - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _CANNOT_TELL:
            raise
        # As `_copied` does.
    return True


def read_ahead(fd: int, position: int, size: int) -> None:
    """Bring a range into the page cache; runs in the hub's thread pool."""
    os.posix_fadvise(fd, position, size, os.POSIX_FADV_WILLNEED)
    os.pread(fd, size, position)
