"""Opens the transport of a connection: connect, TLS handshake, login.

Invariant: every connection of a client, and of a broker to another one, is opened here. One that
cannot be protected as its settings ask is not opened.
"""

import socket
import time

from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.errors import AuthenticationFailed, NetworkError
from zkbroker.network.client.tls import TlsTransport
from zkbroker.network.transport import SocketTransport
from zkbroker.runtime import Runtime
from zkbroker.security.tls.contexts import client_contexts
from zkbroker.security.tls.explain import explain_failure


def check_security(security: ClientSecurity) -> None:
    """Check the files of the settings, so that a client with bad ones fails in its constructor.

    Raises:
        ConfigError: they cannot be used.
    """
    if security.has_tls:
        client_contexts(security.tls)


def open_transport(
    runtime: Runtime,
    host: str,
    port: int,
    timeout_s: float,
    *,
    security: ClientSecurity = NO_SECURITY,
    server_name: str | None = None,
    send_buffer_bytes: int = -1,
    receive_buffer_bytes: int = -1,
) -> SocketTransport:
    """Connect to a broker.

    Args:
        runtime: threads or gevent.
        host: name or address, IPv4 or IPv6.
        port: TCP port.
        timeout_s: for the connection, and for each wait of the handshake and the login.
        security: the TLS and login settings.
        server_name: the name that the broker's certificate must have, if that is not `host`.
        send_buffer_bytes: SO_SNDBUF; -1 leaves the system's own.
        receive_buffer_bytes: SO_RCVBUF; -1 leaves the system's own.

    Raises:
        AuthenticationFailed: the handshake or the login failed; the text says what to change.
        NetworkError: the broker cannot be reached.
        ConfigError: the files of the settings cannot be used.
    """
    name = server_name or host
    context = client_contexts(security.tls).context() if security.has_tls else None
    try:
        connection = runtime.connect(host, port, timeout_s)
    except OSError as error:
        raise NetworkError(f"cannot connect to {host}:{port}: {error}") from error
    transport = SocketTransport(connection)
    try:
        _set_buffers(connection, send_buffer_bytes, receive_buffer_bytes)
        if context is not None:
            encrypted = TlsTransport(runtime, connection, context, name)
            transport = encrypted
            _shake_hands(encrypted, host, port, name, timeout_s)
        if security.sasl is not None:
            # The modules that fetch tokens are slow to import, and few connections have a login.
            from zkbroker.network.client.authentication import authenticate

            connection.settimeout(timeout_s)
            authenticate(transport, security.sasl, f"{host}:{port}", runtime.offload)
        connection.settimeout(None)
    except BaseException:
        transport.close()
        raise
    return transport


def _set_buffers(connection: socket.socket, send_bytes: int, receive_bytes: int) -> None:
    for kind, size in ((socket.SO_SNDBUF, send_bytes), (socket.SO_RCVBUF, receive_bytes)):
        if size > 0:
            connection.setsockopt(socket.SOL_SOCKET, kind, size)


def _shake_hands(
    transport: TlsTransport, host: str, port: int, name: str, timeout_s: float
) -> None:
    started = time.monotonic()
    transport.limit(timeout_s)
    try:
        transport.shake_hands()
    except TimeoutError as error:
        raise NetworkError(
            f"no TLS handshake with {host}:{port} within {time.monotonic() - started:.1f} s: is "
            "that the port of an SSL or SASL_SSL listener?"
        ) from error
    except OSError as error:
        raise AuthenticationFailed(
            f"cannot connect to {host}:{port} by TLS: {explain_failure(error, name)}"
        ) from error
