"""Sockets of test servers."""

import contextlib
import socket


def shut(end: socket.socket) -> None:
    """Close it, and wake the thread that waits in its accept or recv.

    While a thread waits in accept, a port that was only closed still takes one more connection.
    """
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
