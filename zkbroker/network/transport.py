"""The transport of a connection: a plain one, and a TLS class that extends it.

    server  `HubStream` (plain, `sendfile` for slices of files), `TlsStream`
    client  `SocketTransport` (plain, any runtime), `TlsTransport`

Invariant: the protocol's code (`Session`, `Channel`) uses a transport and no socket.
Only a plain transport may send a slice of a file without reading it. Of the tasks of a connection
one reads and one writes.
"""

import contextlib
import os
import select
import socket
from collections.abc import Sequence

from zkbroker.fileslice import FileSlice

Part = bytes | bytearray | memoryview | FileSlice

_JOIN_BYTES = 64 * 1024


class SocketTransport:
    """A blocking socket of a runtime, on the client's side.

    Args:
        connection: the socket; the transport owns it.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def limit(self, timeout_s: float) -> None:
        """Make every later call that waits longer raise TimeoutError."""
        self._socket.settimeout(timeout_s)

    def readable(self) -> bool:
        """Whether bytes have arrived, or the peer has closed; does not wait."""
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def receive_into(self, view: memoryview) -> int:
        """Wait for bytes and return how many came; 0 at the end of the stream."""
        return self._socket.recv_into(view)

    def send(self, parts: Sequence[Part]) -> None:
        """Send all parts in order, small ones joined in one call; OSError if the peer is gone."""
        small: list[bytes | bytearray | memoryview] = []
        for each in parts:
            part = read_slice(each) if isinstance(each, FileSlice) else each
            if len(part) < _JOIN_BYTES:
                small.append(part)
                continue
            if small:
                self._socket.sendall(b"".join(small))
                small.clear()
            self._socket.sendall(part)
        if small:
            self._socket.sendall(b"".join(small))

    def shut_down(self, how: int) -> None:
        """Shut down one direction or both (`socket.SHUT_…`); wakes the task that waits there."""
        with contextlib.suppress(OSError):  # the peer has closed already
            self._socket.shutdown(how)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def read_slice(part: FileSlice) -> bytes:
    """Return the bytes of a slice."""
    return os.pread(part.fd, part.size, part.position)
