"""Listening sockets: from a listener's address to a socket that is bound to it.

Invariant: a socket that is returned listens; one that cannot is closed. An empty host means every
address, of IPv4 and IPv6 where the machine has both.
"""

import socket
from dataclasses import dataclass

from zkbroker.config.security import PLAINTEXT

_BACKLOG = 1024


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on; an empty host means every address, port 0 a free one."""

    name: str
    host: str
    port: int
    protocol: str = PLAINTEXT


def bind(listener: Listener, receive_buffer_bytes: int) -> socket.socket:
    """Bind a listener.

    Args:
        listener: where.
        receive_buffer_bytes: SO_RCVBUF of its connections; -1 leaves the system's own.

    Raises:
        OSError: the address cannot be bound.
    """
    host = listener.host
    family = socket.AF_INET6 if ":" in host or not host else socket.AF_INET
    if host and ":" not in host:
        family = socket.getaddrinfo(host, listener.port, type=socket.SOCK_STREAM)[0][0]
    if not host and not socket.has_dualstack_ipv6():
        family = socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(bool(host)))
        # Before listen, so that the window scale of accepted connections fits.
        if receive_buffer_bytes > 0:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        bound.setblocking(False)
        bound.bind((host, listener.port))
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound
