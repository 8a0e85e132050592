"""TLS for the connection of the ZooKeeper client.

Invariant: neither the handshake nor a later read blocks the other tasks of its runtime: the socket
is non-blocking, and all waits are in the client's `select`. A socket with decrypted bytes counts as
readable.
"""

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import Any

from zkbroker.config.tls import TlsSettings
from zkbroker.security.tls.contexts import client_contexts
from zkbroker.security.tls.explain import explain_failure

Select = Callable[[list[Any], list[Any], list[Any], float], Any]


class TlsRefused(ConnectionError):
    """The handshake failed for a reason that a retry cannot remove."""


def shake_hands(
    plain: Any, tls: TlsSettings, host: str, timeout_s: float, select: Select
) -> ssl.SSLSocket:
    """Do the TLS handshake on a connected socket; the returned socket owns the connection.

    Args:
        plain: a connected socket of either runtime.
        tls: keys and authorities.
        host: the name of the server.
        timeout_s: for the whole handshake.
        select: waits for sockets, as `select.select` does.

    Raises:
        TlsRefused: the certificates, versions or ports do not match; the text gives the reason.
        OSError: the connection broke, or the peer did not answer in time.
        ConfigError: the files cannot be used.
    """
    context = client_contexts(tls).context()
    native = socket.socket(fileno=plain.detach())
    native.setblocking(False)
    try:
        encrypted = context.wrap_socket(native, server_hostname=host, do_handshake_on_connect=False)
    except BaseException:
        native.close()
        raise
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            try:
                encrypted.do_handshake()
                return encrypted
            except ssl.SSLWantReadError:
                wanted: tuple[list[Any], list[Any]] = ([encrypted], [])
            except ssl.SSLWantWriteError:
                wanted = ([], [encrypted])
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no TLS handshake in time")
            select(*wanted, [], left_s)
    except ssl.SSLError as error:
        encrypted.close()
        if isinstance(error, ssl.SSLEOFError):
            raise ConnectionError(str(error)) from error
        raise TlsRefused(zookeeper_words(explain_failure(error, host))) from error
    except BaseException:
        encrypted.close()
        raise


def zookeeper_words(sentence: str) -> str:
    """Rewrite a sentence about brokers and their settings for ZooKeeper and its settings."""
    return (
        sentence.replace("(ssl.client.auth=required)", "(ssl.clientAuth=need)")
        .replace("(ssl.ca.location)", "")
        .replace("ssl.keystore", "zookeeper.ssl.keystore")
        .replace("ssl.truststore", "zookeeper.ssl.truststore")
        .replace("ssl.endpoint", "zookeeper.ssl.endpoint")
        .replace("ssl.cipher", "zookeeper.ssl.cipher")
        .replace("ssl.enabled", "zookeeper.ssl.enabled")
        .replace("broker", "server")
    )


def has_decrypted(readers: Sequence[Any]) -> list[Any]:
    """Return the sockets with decrypted bytes that were not read yet."""
    return [each for each in readers if isinstance(each, ssl.SSLSocket) and each.pending()]
