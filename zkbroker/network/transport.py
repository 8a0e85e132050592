"""What carries the bytes of a connection: the one door for plain sockets and TLS.

    server  `HubStream` (plain, `sendfile` for slices of files)      a TLS class stands beside it
    client  `SocketTransport` (plain, any runtime), `TlsTransport`   and wraps the socket

Invariant: the protocol's code (`Session`, `Channel`) knows this interface and no socket.
Only a plain transport may send a slice of a file without reading it.
"""

import os
import select
import socket
from collections.abc import Sequence
from typing import Protocol

from zkbroker.fileslice import FileSlice
from zkbroker.security import Principal

Part = bytes | bytearray | memoryview | FileSlice

_JOIN_BYTES = 64 * 1024


class Transport(Protocol):
    """One end of a connection; one task reads, one writes."""

    def receive_into(self, view: memoryview) -> int:
        """Wait for bytes and return how many came; 0 at the end of the stream."""

    def send(self, parts: Sequence[Part]) -> None:
        """Send all parts in order; OSError when the connection was lost."""

    def shut_down(self, how: int) -> None:
        """Shut down one direction or both (`socket.SHUT_…`); wakes the task that waits there."""

    def close(self) -> None:
        """Let go of it."""


class ServerTransport(Transport, Protocol):
    """What a server needs besides."""

    active_at: float
    """When the last byte went in or out, on the monotonic clock."""
    run_until: float
    """When `pace` is to be called, on the monotonic clock; before that it does nothing."""

    def begin(self) -> Principal:
        """Prepare the connection, for instance by a handshake; return the peer's principal."""

    def fileno(self) -> int:
        """A descriptor that can be polled for the peer's going."""

    def pace(self) -> None:
        """Let others run when this one has run long without waiting."""


class ClientTransport(Transport, Protocol):
    """What a client needs besides."""

    def limit(self, timeout_s: float) -> None:
        """Let every later call that waits longer raise TimeoutError."""

    def readable(self) -> bool:
        """Whether something came, or the peer closed; does not wait."""


class SocketTransport:
    """A blocking socket of a runtime.

    Args:
        connection: the socket; the transport owns it.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def limit(self, timeout_s: float) -> None:
        """Let every later call that waits longer raise TimeoutError."""
        self._socket.settimeout(timeout_s)

    def readable(self) -> bool:
        """Whether something came, or the peer closed; does not wait."""
        poll = select.poll()
        poll.register(self._socket.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def receive_into(self, view: memoryview) -> int:
        """Wait for bytes and return how many came; 0 at the end of the stream."""
        return self._socket.recv_into(view)

    def send(self, parts: Sequence[Part]) -> None:
        """Send small parts joined in one call, large ones as they are."""
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
        """Shut down one direction or both."""
        try:
            self._socket.shutdown(how)
        except OSError:
            pass  # the peer was faster

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def read_slice(part: FileSlice) -> bytes:
    """Return the bytes of a slice."""
    return os.pread(part.fd, part.size, part.position)
