"""TLS of a client, over a blocking socket of either runtime.

    requests --write--> SSLObject --outgoing--> socket      one sender at a time
    answers  <--read--- SSLObject <--incoming-- socket      one reader

Invariant: the TLS state is used by one task at a time (`_guard`, never held during a wait for the
network), and its output is sent in the order in which it was made (`_sending`). A reader never
sends, so that a sender that waits for the peer delays no answer.
"""

import socket
import ssl
from collections.abc import Sequence

from zkbroker.fileslice import FileSlice
from zkbroker.network.transport import Part, SocketTransport, read_slice
from zkbroker.runtime import Runtime
from zkbroker.security.tls.explain import explain_failure

_CHUNK_BYTES = 128 * 1024
_RECEIVE_BYTES = 256 * 1024


class TlsTransport(SocketTransport):
    """One end of an encrypted connection.

    Args:
        runtime: of the socket.
        connection: a connected socket; the transport owns it.
        context: of a client.
        host: the name that the certificate must have, if the context checks names.
    """

    def __init__(
        self, runtime: Runtime, connection: socket.socket, context: ssl.SSLContext, host: str
    ) -> None:
        super().__init__(connection)
        self._host = host
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._guard = runtime.guard()
        self._sending = runtime.lock()
        self._received = memoryview(bytearray(_RECEIVE_BYTES))

    def shake_hands(self) -> None:
        """Complete the handshake; the socket's time-out limits each wait.

        Raises:
            OSError: the handshake failed.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            except ssl.SSLError:
                # The alert gives the peer the reason.
                self._flush()
                raise
            else:
                self._flush()
                return

    def version(self) -> str:
        """Return the negotiated TLS version."""
        return self._tls.version() or ""

    def readable(self) -> bool:
        return self._tls.pending() > 0 or super().readable()

    def receive_into(self, view: memoryview) -> int:
        while True:
            with self._guard:
                count = self._decrypted(view)
            if count is not None:
                return count
            self._fill()

    def send(self, parts: Sequence[Part]) -> None:
        chunk = bytearray()
        for each in parts:
            part = read_slice(each) if isinstance(each, FileSlice) else each
            if len(part) <= _CHUNK_BYTES:
                chunk += part
                if len(chunk) >= _CHUNK_BYTES:
                    self._encrypt(chunk)
                    chunk = bytearray()
                continue
            if chunk:
                self._encrypt(chunk)
                chunk = bytearray()
            view = memoryview(part)
            for start in range(0, len(view), _CHUNK_BYTES):
                self._encrypt(view[start : start + _CHUNK_BYTES])
        if chunk:
            self._encrypt(chunk)

    def _decrypted(self, view: memoryview) -> int | None:
        """Decrypt received bytes; return the count, 0 at the end, None if more are needed."""
        count = 0
        try:
            while count < len(view):
                got = self._tls.read(len(view) - count, view[count:])
                if not got:
                    break
                count += int(got)
        except ssl.SSLWantReadError:
            return count or None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            # Frames carry their length, so an end without a close_notify alert is safe.
            return count
        except ssl.SSLError as error:
            raise ConnectionError(explain_failure(error, self._host)) from error
        return count

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        with self._sending:
            with self._guard:
                self._tls.write(data)
                sealed = self._outgoing.read()
            self._socket.sendall(sealed)

    def _fill(self) -> None:
        count = self._socket.recv_into(self._received)
        with self._guard:
            if count:
                self._incoming.write(self._received[:count])
            else:
                self._incoming.write_eof()

    def _flush(self) -> None:
        if self._outgoing.pending:
            self._socket.sendall(self._outgoing.read())
