"""TLS of a client, over a blocking socket of either runtime.

    requests --write--> SSLObject --outgoing--> socket      one sender at a time
    answers  <--read--- SSLObject <--incoming-- socket      one reader

Invariant: the TLS state is touched by one task at a time (`_guard`, never held while the network is
waited for), and what it puts out is sent in that order (`_sending`). A reader never sends: a sender
that waits for the peer keeps no answer from coming.
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


class TlsTransport:
    """One end of an encrypted connection.

    Args:
        runtime: of the socket.
        connection: a connected socket; the transport owns it.
        context: of a client.
        host: that was connected to; the certificate must be for it where the context says so.
    """

    def __init__(
        self, runtime: Runtime, connection: socket.socket, context: ssl.SSLContext, host: str
    ) -> None:
        self._plain = SocketTransport(connection)
        self._socket = connection
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
            OSError: it failed.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._fill()
            except ssl.SSLError:
                # The alert says to the peer why.
                self._flush()
                raise
            else:
                self._flush()
                return

    def version(self) -> str:
        """Return the version of TLS that was agreed on."""
        return self._tls.version() or ""

    def limit(self, timeout_s: float) -> None:
        """Let every later call that waits longer raise TimeoutError."""
        self._plain.limit(timeout_s)

    def readable(self) -> bool:
        """Whether something came, or the peer closed; does not wait."""
        return self._tls.pending() > 0 or self._plain.readable()

    def receive_into(self, view: memoryview) -> int:
        """Wait for bytes and return how many came; 0 at the end of the stream."""
        while True:
            with self._guard:
                count = self._decrypted(view)
            if count is not None:
                return count
            self._fill()

    def send(self, parts: Sequence[Part]) -> None:
        """Send all parts in order."""
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

    def shut_down(self, how: int) -> None:
        """Shut down one direction or both."""
        self._plain.shut_down(how)

    def close(self) -> None:
        """Close the socket."""
        self._plain.close()

    def _decrypted(self, view: memoryview) -> int | None:
        """Take what has been received: a count, 0 at the end, None when more must be received."""
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
            # Frames say where they end, so an end without TLS's own farewell is an end.
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
