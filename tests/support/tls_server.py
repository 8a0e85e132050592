"""A TLS server of Python's own for tests of clients: it answers each connection with an echo."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.sockets import shut

_TIMEOUT_S = 20


@contextmanager
def tls_echo(context: ssl.SSLContext | None) -> Iterator[int]:
    """Serve an echo, plain without a context; yields the port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=_echo, args=(connection, context), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        shut(listening)
        thread.join(_TIMEOUT_S)


def _echo(connection: socket.socket, context: ssl.SSLContext | None) -> None:
    connection.settimeout(_TIMEOUT_S)
    with connection:
        try:
            stream = connection
            if context is not None:
                stream = context.wrap_socket(connection, server_side=True)
            with stream:
                while data := stream.recv(65536):
                    stream.sendall(data)
        except OSError:
            return  # the client refused the certificate, or went


def server_context(
    pem: str, *, trusted: str = "", required: bool = False, newest: bool = True
) -> ssl.SSLContext:
    """Make the context of a server with a key, and with clients' certificates where trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    if trusted:
        context.load_verify_locations(trusted)
        context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context
