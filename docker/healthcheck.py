"""Healthy when the broker of this container answers an ApiVersions request."""

import os
import socket
import struct
import sys

_API_VERSIONS = 18
_CORRELATION_ID = 1


def main() -> int:
    """Return the exit status of a health check: 0 healthy, 1 not."""
    port = int(os.environ.get("ZKBROKER_PORT", "9092"))
    client_id = b"healthcheck"
    header = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION_ID, len(client_id))
    frame = header + client_id
    with socket.create_connection(("127.0.0.1", port), timeout=4) as connection:
        connection.sendall(struct.pack(">i", len(frame)) + frame)
        size, correlation_id, error = struct.unpack(">iih", _exactly(connection, 10))
    return 0 if size > 6 and correlation_id == _CORRELATION_ID and error == 0 else 1


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = connection.recv(size - len(data))
        if not block:
            raise ConnectionError("the broker closed the connection")
        data += block
    return data


try:
    sys.exit(main())
except OSError as error:
    sys.exit(f"not healthy: {error}")
