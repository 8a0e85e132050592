"""Sockets of test servers."""

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def refusing_port() -> Iterator[int]:
    """Yield a port that refuses connections: it is bound, so nobody else gets it meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def shut(end: socket.socket) -> None:
    """Close it, and wake the thread that waits in its accept or recv.

    While a thread waits in accept, a port that was only closed still takes one more connection.
    """
    wake(end)
    end.close()


def wake(end: socket.socket) -> None:
    """End its accept, recv and sendall, now and later; the thread that is in them closes it.

    If another thread closes it, its number may be that of a new socket when the call begins.
    """
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
