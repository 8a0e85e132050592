"""A client of frames on gevent: plain sockets against a server in the same process."""

from typing import Any

import gevent.socket


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def connect(address: tuple[str, int], source: str = "") -> Any:
    """Open a connection with a timeout of 10 seconds, from a local address if one is given."""
    connection = gevent.socket.create_connection(
        address, source_address=(source, 0) if source else None
    )
    connection.settimeout(10)
    return connection


def receive(connection: Any, count: int) -> bytes:
    """Return the next bytes; fewer at the end of the stream."""
    data = bytearray()
    while len(data) < count and (chunk := connection.recv(count - len(data))):
        data += chunk
    return bytes(data)


def ask(connection: Any, body: bytes) -> bytes:
    """Send a request and return the body of the response."""
    connection.sendall(frame(body))
    return receive(connection, int.from_bytes(receive(connection, 4), "big"))
