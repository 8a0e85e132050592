"""Healthy when the broker of this container answers an ApiVersions request.

ZKBROKER_PORT says which listener is asked (9092); one of SSL or SASL_SSL is asked by TLS. A
listener that asks for a certificate of the client is healthy when it does so: the check has none.
"""

import os
import re
import socket
import ssl
import struct
import sys
import tempfile
from pathlib import Path

_API_VERSIONS = 18
_CORRELATION_ID = 1
# OpenSSL's names of what a server answers to a client without a certificate, by TLS 1.3 and 1.2.
_ASKS_FOR_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE")


def main() -> int:
    """Return the exit status of a health check: 0 healthy, 1 not."""
    port = int(os.environ.get("ZKBROKER_PORT", "9092"))
    client_id = b"healthcheck"
    header = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION_ID, len(client_id))
    frame = header + client_id
    try:
        with _connect(port) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            size, correlation_id, error = struct.unpack(">iih", _exactly(connection, 10))
    except ssl.SSLError as refusal:
        if any(name in (refusal.reason or "") for name in _ASKS_FOR_CERTIFICATE):
            return 0
        raise
    return 0 if size > 6 and correlation_id == _CORRELATION_ID and error == 0 else 1


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=4)
    if not _speaks_tls(port):
        return connection
    # It is this container's own broker: its certificate is for the name that clients use.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(connection)


def _speaks_tls(port: int) -> bool:
    path = Path(tempfile.gettempdir()) / "server.properties"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    protocols = dict(
        pair.strip().split(":") for pair in _value(text, "listener.security.protocol.map")
    )
    for listener in _value(text, "listeners"):
        name, _, address = listener.strip().partition("://")
        if address.endswith(f":{port}"):
            return protocols.get(name, name).upper().endswith("SSL")
    return False


def _value(text: str, key: str) -> list[str]:
    """Return the items of the last line that sets a key."""
    found = re.findall(rf"^\s*{re.escape(key)}\s*[=:\s]\s*(.*)$", text, re.MULTILINE)
    return [each for each in found[-1].split(",") if each.strip()] if found else []


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = connection.recv(size - len(data))
        if not block:
            raise ConnectionError("the broker closed the connection")
        data += block
    return data


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f"not healthy: {error}")
