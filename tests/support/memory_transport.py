"""A connection without a socket."""

import socket
from collections.abc import Sequence

from zkbroker.fileslice import FileSlice
from zkbroker.network.transport import Part, read_slice
from zkbroker.runtime import Runtime

_QUEUED_SENDS = 1000


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
