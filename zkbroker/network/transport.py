"""What carries the bytes of a connection: the one door for plain sockets, TLS and tests.

    server  `HubStream` (plain, `sendfile` for slices of files)      a TLS class stands beside it
    client  `SocketTransport` (plain, any runtime), `TlsTransport`   and wraps the socket
    tests   `memory_pair` (two ends without a socket)

Invariant: whoever speaks the protocol (`Session`, `Channel`) knows this interface and no socket.
Only a plain transport may send a slice of a file without reading it.
"""

import os
import select
import socket
from collections.abc import Sequence
from typing import Protocol

from zkbroker.fileslice import FileSlice
from zkbroker.runtime import Runtime
from zkbroker.security import Principal

Part = bytes | bytearray | memoryview | FileSlice

_JOIN_BYTES = 64 * 1024
_QUEUED_SENDS = 1000


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
        """Do what comes before the first request; return who the peer has shown itself to be."""

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


class MemoryTransport:
    """One end of a connection without a socket; `memory_pair` makes two."""

    def __init__(self, runtime: Runtime) -> None:
        self._incoming = runtime.queue(_QUEUED_SENDS)
        self._rest = memoryview(b"")
        self._ended = False
        self._peer: MemoryTransport | None = None

    def receive_into(self, view: memoryview) -> int:
        """Wait for bytes and return how many came; 0 at the end of the stream."""
        if not self._rest and not self._ended:
            self._rest = memoryview(self._incoming.get())
            self._ended = not self._rest
        count = min(len(view), len(self._rest))
        view[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def send(self, parts: Sequence[Part]) -> None:
        """Hand the parts to the other end; OSError when one of the two is closed."""
        if self._peer is None:
            raise BrokenPipeError("the other end is closed")
        sent = b"".join(read_slice(part) if isinstance(part, FileSlice) else part for part in parts)
        if sent:
            self._peer._incoming.put(sent)

    def shut_down(self, how: int) -> None:
        """Shut down one direction or both."""
        if how in (socket.SHUT_RD, socket.SHUT_RDWR):
            self._incoming.put(b"")
        if how in (socket.SHUT_WR, socket.SHUT_RDWR) and self._peer is not None:
            self._peer._incoming.put(b"")
            self._peer = None

    def close(self) -> None:
        """Close this end; the other one reads its end of the stream."""
        self.shut_down(socket.SHUT_WR)


def memory_pair(runtime: Runtime) -> tuple[MemoryTransport, MemoryTransport]:
    """Return two ends that are connected to each other."""
    one, other = MemoryTransport(runtime), MemoryTransport(runtime)
    one._peer, other._peer = other, one
    return one, other


def read_slice(part: FileSlice) -> bytes:
    """Return the bytes of a slice."""
    return os.pread(part.fd, part.size, part.position)
