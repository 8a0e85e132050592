"""TLS of a server: a `HubStream` whose socket encrypts, non-blocking on gevent's hub.

    accept -> handshake within a time limit -> principal of the client's certificate -> requests

If OpenSSL has handed encryption to the kernel (kTLS), slices of files are sent by `os.sendfile` as
without TLS; else they are read and encrypted in pieces of `COPIED_BYTES`.

Invariant: the resources of a peer that is not authenticated are bounded: the time of a handshake,
and the number of handshakes per address that are under way. A connection that fails affects no
other, and its log line gives the reason.
"""

import contextlib
import logging
import os
import socket
import ssl
import time
from collections.abc import Sequence

import gevent
from gevent.hub import Hub

from zkbroker.config.broker_security import BrokerSecurity, ListenerSecurity
from zkbroker.config.principal_rules import PrincipalRules
from zkbroker.errors import ConfigError, StorageError
from zkbroker.fileslice import FileSlice
from zkbroker.network.server.session import CloseConnection
from zkbroker.network.server.stream import HubStream, in_page_cache, read_ahead
from zkbroker.security import ANONYMOUS, Principal
from zkbroker.security.tls.contexts import Reloaded, make_server_context
from zkbroker.security.tls.explain import explain_refusal, is_plain
from zkbroker.security.tls.names import BadCertificate, subject_name

logger = logging.getLogger(__name__)

COPIED_BYTES = 128 * 1024
HANDSHAKES_PER_ADDRESS = 100
_RECORD_BYTES = 16 * 1024
_WRITE_BYTES = 64 * 1024
_FAREWELL_S = 1.0
_FAREWELL_BYTES = 64 * 1024
# Fatal: protocol version.
_ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
_SOL_TLS, _TLS_TX, _CRYPTO_INFO_BYTES = 282, 1, 128


class ListenersTls:
    """The listeners of a broker that speak TLS.

    Raises:
        ConfigError: the keys of a listener cannot be used.
    """

    def __init__(self, security: BrokerSecurity) -> None:
        self._listeners = {
            name: _Listener(each) for name, each in security.listeners.items() if each.has_tls
        }
        self._under_way: dict[str, int] = {}

    @property
    def names(self) -> Sequence[str]:
        """Names of the listeners that speak TLS."""
        return tuple(self._listeners)

    def check(self, security: BrokerSecurity) -> None:
        """Check changed keys without using them.

        Raises:
            ConfigError: they cannot be used.
        """
        for each in self._changed(security):
            _Listener(each)

    def follow(self, security: BrokerSecurity) -> None:
        """Use changed keys; a listener whose new keys cannot be used keeps its old ones."""
        for each in self._changed(security):
            try:
                self._listeners[each.name] = _Listener(each)
            except ConfigError as error:
                # A traceback would add nothing to the message.
                logger.error("keys kept listener=%s error=%s", each.name, error)  # noqa: TRY400
            else:
                logger.info("keys changed listener=%s", each.name)

    def _changed(self, security: BrokerSecurity) -> list[ListenerSecurity]:
        return [
            each
            for name, each in security.listeners.items()
            if name in self._listeners and each.tls != self._listeners[name].security.tls
        ]

    def transport(self, listener: str, connection: socket.socket) -> HubStream | None:
        """Make the transport of an accepted socket; None for a plain listener.

        Raises:
            OSError: the connection is refused.
        """
        found = self._listeners.get(listener)
        if found is None:
            return None
        ip = str(connection.getpeername()[0])
        under_way = self._under_way.get(ip, 0)
        if under_way >= HANDSHAKES_PER_ADDRESS:
            raise ConnectionRefusedError(f"{under_way} TLS handshakes of {ip} are under way")
        self._under_way[ip] = under_way + 1
        try:
            return TlsStream(connection, gevent.get_hub(), found, self, ip)
        except BaseException:
            self.handshake_over(ip)
            raise

    def handshake_over(self, ip: str) -> None:
        """Note that a handshake of an address has succeeded or failed."""
        left = self._under_way[ip] - 1
        if left:
            self._under_way[ip] = left
        else:
            del self._under_way[ip]


class _Listener:
    """One listener: its TLS context and the rules for the principals of certificates."""

    def __init__(self, security: ListenerSecurity) -> None:
        self.security = security
        self.handshake_s = security.server.handshake_timeout_ms / 1000
        self._rules = PrincipalRules.parse(security.server.principal_rules)
        self.keys = Reloaded(
            security.tls,
            lambda tls: make_server_context(
                tls, security.client_auth, kernel=security.server.kernel_offload
            ),
        )

    def principal(self, certificate: bytes | None) -> Principal:
        """Return the principal of a certificate.

        Raises:
            CloseConnection: the certificate has no readable name, or no rule matches it.
        """
        if certificate is None:
            return ANONYMOUS
        try:
            name = subject_name(certificate)
        except BadCertificate as error:
            raise CloseConnection(f"TLS: the client's certificate has no name: {error}") from error
        user = self._rules.user(name)
        if user is None:
            raise CloseConnection(
                f"TLS: no rule of ssl.principal.mapping.rules matches the certificate of {name}"
            )
        return Principal("User", user)


class TlsStream(HubStream):
    """One connection of a listener with TLS.

    Args:
        connection: the accepted socket; the stream owns it.
        hub: the hub that waits.
        listener: that accepted it.
        listeners: notified when the handshake is over.
        ip: of the peer.
    """

    __slots__ = ("_ip", "_kernel", "_listener", "_listeners", "_tls")

    def __init__(
        self,
        connection: socket.socket,
        hub: Hub,
        listener: _Listener,
        listeners: ListenersTls,
        ip: str,
    ) -> None:
        connection.setblocking(False)
        wrapped = listener.keys.context().wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )
        super().__init__(wrapped, hub)
        self._tls: ssl.SSLSocket = wrapped
        self._listener = listener
        self._listeners: ListenersTls | None = listeners
        self._ip = ip
        self._kernel = False

    def begin(self) -> Principal:
        """Shake hands, and return the principal of the client's certificate.

        Raises:
            CloseConnection: the handshake failed or took too long, or the certificate gives no
                principal.
        """
        limit_s = self._listener.handshake_s
        timeout = gevent.Timeout(limit_s)
        try:
            with timeout:
                self._shake_hands()
            principal = self._listener.principal(self._tls.getpeercert(binary_form=True))
        except gevent.Timeout as error:
            if error is not timeout:
                raise
            raise CloseConnection(f"TLS: no handshake within {limit_s:g} s", often=True) from None
        except OSError as error:
            self._say_why(plain=is_plain(error))
            raise CloseConnection(f"TLS: {explain_refusal(error)}", often=True) from error
        finally:
            self._handshake_over()
        self._kernel = _in_kernel(self._tls)
        return principal

    def receive_into(self, view: memoryview) -> int:
        if self._drained and not self._tls.pending():
            self._wait(self._read_watcher)
        count, size = 0, len(view)
        while count < size:
            try:
                got = self._tls.recv_into(view[count:] if count else view)
            except ssl.SSLWantReadError:
                if count:
                    self._drained = True
                    break
                self._wait(self._read_watcher)
                continue
            except ssl.SSLWantWriteError:
                self._wait(self._write_watcher)
                continue
            if not got:
                break
            count += got
            # A record that is not full is usually the last one for now.
            self._drained = got < _RECORD_BYTES and not self._tls.pending()
            if self._drained:
                break
        self.active_at = time.monotonic()
        return count

    def shut_down(self, how: int) -> None:
        with contextlib.suppress(OSError):
            # Below TLS: `SSLSocket.shutdown` ends TLS, and the rest would be sent unencrypted.
            socket.socket.shutdown(self._socket, how)

    def close(self) -> None:
        """Close the connection, with a close_notify alert if the socket takes it at once."""
        self._handshake_over()
        with contextlib.suppress(OSError, ValueError):
            self._tls.unwrap()
        super().close()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._wait(self._read_watcher)
            except ssl.SSLWantWriteError:
                self._wait(self._write_watcher)
            else:
                self.active_at = time.monotonic()
                return

    def _handshake_over(self) -> None:
        listeners, self._listeners = self._listeners, None
        if listeners is not None:
            listeners.handshake_over(self._ip)

    def _say_why(self, *, plain: bool) -> None:
        """Make sure that the alert arrives: closing a socket with unread bytes would discard it.

        OpenSSL sends no alert to a peer that does not speak TLS, but clients recognize its bytes.
        """
        taken = 0
        with contextlib.suppress(OSError), gevent.Timeout(_FAREWELL_S, exception=False):
            if plain:
                socket.socket.send(self._socket, _ALERT)
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
            while taken < _FAREWELL_BYTES:
                try:
                    # Below TLS, which has failed.
                    data = socket.socket.recv(self._socket, 4096)
                except BlockingIOError:
                    self._wait(self._read_watcher)
                    continue
                if not data:
                    return
                taken += len(data)

    def _send_all(self, data: bytes | bytearray | memoryview, flags: int) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_BYTES):
            piece = view[start : start + _WRITE_BYTES]
            while True:
                try:
                    self._tls.send(piece)
                except ssl.SSLWantWriteError:
                    self._wait(self._write_watcher)
                except ssl.SSLWantReadError:
                    self._wait(self._read_watcher)
                else:
                    break
            self.active_at = time.monotonic()
            self.pace()

    def _send_file(self, part: FileSlice) -> None:
        if self._kernel:
            super()._send_file(part)
            return
        position, end = part.position, part.position + part.size
        piece = bytearray(min(COPIED_BYTES, part.size))
        while position < end:
            size = min(end - position, COPIED_BYTES)
            if not in_page_cache(part.fd, position, size):
                self._hub.threadpool.apply(read_ahead, (part.fd, position, size))
            view = memoryview(piece)[:size]
            count = os.preadv(part.fd, (view,), position)
            if not count:
                raise StorageError(
                    f"a log file ends {end - position} bytes before the slice being sent"
                )
            self._send_all(view[:count], 0)
            position += count


def _in_kernel(connection: socket.socket) -> bool:
    """Whether the kernel encrypts what is written to a socket."""
    try:
        return bool(connection.getsockopt(_SOL_TLS, _TLS_TX, _CRYPTO_INFO_BYTES))
    except OSError:
        return False
