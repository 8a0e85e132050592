"""One connection on the server: a greenlet that reads a request, calls the handler, and answers.

Invariant: requests of one connection are handled one after the other, so answers leave in the order
of requests. A client that does not read its answers is not read from either: this is the
backpressure, and it affects no other connection. An answer that is being sent holds no request
slot, so that peers that do not read cannot block the others. A muted connection is not read either,
and holds no slot and no memory. Every file slice of an answer is closed exactly once, whether it
was sent or not.
"""

import logging
import math
import re
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from zkbroker.config.security import PLAINTEXT
from zkbroker.errors import StorageError, ZkbrokerError
from zkbroker.fileslice import FileSlice
from zkbroker.network.frames import FrameError, FrameReader
from zkbroker.network.server.muting import Mute
from zkbroker.network.server.request_memory import Account
from zkbroker.network.server.stream import HubStream
from zkbroker.network.transport import Part
from zkbroker.security import ANONYMOUS, Principal

if TYPE_CHECKING:
    from zkbroker.network.server.server import Server

logger = logging.getLogger(__name__)

_MAX_AFTER_STOP = 64
_FOREIGN = {
    b"GET ": "an HTTP request",
    b"POST": "an HTTP request",
    b"HEAD": "an HTTP request",
    b"PUT ": "an HTTP request",
    b"SSH-": "an SSH client",
    b"\x16\x03\x01\x02": "a TLS handshake",
    b"\x16\x03\x01\x00": "a TLS handshake",
    b"\x16\x03\x01\x01": "a TLS handshake",
}


class CloseConnection(ZkbrokerError):
    """A handler closes the connection; the message is logged with the peer's address.

    Args:
        message: the reason.
        quiet: log it at DEBUG instead of WARNING.
        often: any peer can cause it as often as it likes. Of the messages of one address with the
            same beginning, one a minute is logged, with the number of those left out.
    """

    def __init__(self, message: str, *, quiet: bool = False, often: bool = False) -> None:
        super().__init__(message)
        self.quiet = quiet
        self.often = often


class Session:
    """The state of one connection, which handlers may read and write.

    Args:
        owner: the server of the connection.
        stream: the transport.
        reader: cuts the stream into requests.
        address: `host:port` of the peer.
        ip: the peer's address alone.
        listener: name of the listener that accepted it.
        number: of the connection; later connections have greater numbers.
        protocol: security protocol of the listener.
    """

    __slots__ = (
        "_account",
        "_close_reason",
        "_owner",
        "_reader",
        "_reserved",
        "_stream",
        "_wake",
        "address",
        "busy",
        "client_id",
        "context",
        "ip",
        "last_answer",
        "listener",
        "log_in_until",
        "login",
        "mute",
        "number",
        "parked_s",
        "peer_gone",
        "principal",
        "protocol",
        "received_at",
        "requests",
        "waits_for_memory",
        "writing",
    )

    def __init__(
        self,
        owner: "Server",
        stream: HubStream,
        reader: FrameReader,
        *,
        address: str,
        ip: str,
        listener: str,
        number: int,
        protocol: str = PLAINTEXT,
    ) -> None:
        self._owner = owner
        self._stream = stream
        self._reader = reader
        self._close_reason: str | None = None
        self.address = address
        self.ip = ip
        self.listener = listener
        self.number = number
        self.protocol = protocol
        """The security protocol of its listener."""
        self.login: object = None
        """The state of the login, kept by the gate of a listener that asks for one."""
        self.log_in_until = math.inf
        """By when the peer must have logged in, on the monotonic clock."""
        self.last_answer = ""
        """Why the connection ends after this answer; empty if it goes on."""
        self.principal: Principal = ANONYMOUS
        """The authenticated identity of the peer."""
        self.client_id: str | None = None
        self.context: object = None
        """State that the handler keeps between requests of this connection."""
        self.requests = 0
        self.received_at = 0.0
        """When the last byte of the current request arrived, on the monotonic clock."""
        self.parked_s = 0.0
        """Seconds spent in `parked` since the handler last set this to 0."""
        self.mute = Mute()
        self.busy = False
        self.writing = False
        self.peer_gone = False
        """Whether the peer has closed its side: no request should wait for it any more."""
        self._wake: Callable[[], object] | None = None
        self._reserved = 0
        self._account: Account | None = None
        self.waits_for_memory = False
        """Whether a large request is being received and waits for memory."""
        reader.charge = self._charge

    @property
    def active_at(self) -> float:
        """When the last byte went in or out, on the monotonic clock, in seconds."""
        return self._stream.active_at

    @property
    def in_frame(self) -> bool:
        """Whether a request has arrived in part."""
        return self._reader.in_frame

    def too_slow(self, now: float, bytes_per_s: int, window_s: float) -> bool:
        """Whether a large request that is being received has lately been slower than a rate.

        Arguments as of `Account.too_slow`.
        """
        account = self._account
        return (
            account is not None and self.in_frame and account.too_slow(now, bytes_per_s, window_s)
        )

    @property
    def parked_for_peer(self) -> bool:
        """Whether it waits in `parked` or is muted: a wait that ends when the peer disconnects."""
        return self._wake is not None or self.mute.on

    def let_in(self, max_frame_bytes: int) -> None:
        """Accept requests up to this length from now on, and lift the time limit of the login."""
        self._reader.max_frame_bytes = max_frame_bytes
        self.log_in_until = math.inf

    def parked(self, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Return a context in which a request waits without its request slot.

        Inside another `parked` it does nothing.

        Args:
            wake: called from another greenlet when the peer disconnects; `peer_gone` is then true.
        """
        return nullcontext() if self._wake is not None else _Parked(self, wake)

    def watch_peer(self, poller: select.poll) -> int:
        """Register with a poller for the end of the peer's side; return the descriptor."""
        descriptor = self._stream.fileno()
        poller.register(descriptor, select.POLLRDHUP)
        return descriptor

    def peer_left(self) -> None:
        """Note that the peer has closed its side, and end the wait of its request."""
        self.peer_gone = True
        if self._wake is not None:
            self._wake()
        self.mute.end()

    def peer_closed(self) -> bool:
        """Ask the system whether the peer has closed its side."""
        poller = select.poll()
        self.watch_peer(poller)
        return bool(poller.poll(0))

    def reserve_answer(self, wanted: int) -> int:
        """Reserve memory for the answer to this request, until it has been sent.

        Args:
            wanted: bytes. The less memory is left, the smaller the share that is given; a request
                may still take the least that it needs.

        Returns:
            The number of bytes that the answer should have at most.
        """
        given = self._owner.reserve_answer(wanted)
        self._reserved += given
        return given

    def correct_answer(self, by: int) -> None:
        """Change the reservation to fit the answer, which is `by` bytes larger (or smaller)."""
        self._owner.release_answer(-by)
        self._reserved += by

    def release_answer(self) -> None:
        """Give back the reservation: the answer has been sent, or is made again."""
        if self._reserved:
            self._owner.release_answer(self._reserved)
            self._reserved = 0

    def abort(self, reason: str) -> None:
        """End the connection from another greenlet; `reason` is logged."""
        if self._close_reason is None:
            self._close_reason = reason
            self._stream.shut_down(socket.SHUT_RDWR)
            self.mute.end()

    def finish(self) -> None:
        """End the connection after the requests that have arrived are answered."""
        self._stream.shut_down(socket.SHUT_RD)
        self.mute.end()

    def serve(self, handle: "Callable[[Session, memoryview], Sequence[Part] | None]") -> None:
        """Serve until either side ends the connection. Never raises for an error of the peer."""
        reason = "closed by peer"
        level = logging.DEBUG
        often, kind = False, ""
        try:
            self._serve(handle)
        except CloseConnection as error:
            reason, level = str(error), logging.DEBUG if error.quiet else logging.WARNING
            often, kind = error.often, _kind(reason)
        except FrameError as error:
            reason, level = _explain(error), logging.WARNING
            often, kind = True, _FOREIGN.get(error.start) or _kind(str(error))
        except StorageError as error:
            reason, level = str(error), logging.ERROR
        except OSError as error:
            reason = str(error)
        except Exception:
            # A failed connection must not end the broker; the traceback is in the log.
            logger.exception("handler failed peer=%s client_id=%s", self.address, self.client_id)
            reason, level = "a handler failed", logging.ERROR
        finally:
            self._stream.close()
            self._close_account()
        if self._close_reason is not None:
            reason, level = self._close_reason, logging.WARNING
        elif often:
            left_out = self._owner.repeated.admit((self.listener, self.ip, kind))
            if left_out is None:
                level = logging.DEBUG
            elif left_out:
                reason += f" (and {left_out} more from there before, not logged)"
        logger.log(
            level,
            "connection closed peer=%s client_id=%s requests=%d reason=%s",
            self.address,
            self.client_id,
            self.requests,
            reason,
        )

    def _serve(self, handle: "Callable[[Session, memoryview], Sequence[Part] | None]") -> None:
        owner, slots = self._owner, self._owner.slots
        stream = self._stream
        self.principal = stream.begin()
        next_frame = self._reader.next_frame
        after_stop = 0
        while (frame := next_frame()) is not None:
            if self._account is not None:
                owner.memory.complete(self._account)
            self.requests += 1
            self.received_at = stream.active_at
            self.busy = True
            try:
                slots.acquire()
                try:
                    parts = handle(self, frame)
                finally:
                    slots.release()
                del frame
                if parts:
                    self.writing = True
                    try:
                        stream.send(parts)
                    finally:
                        self.writing = False
                        for part in parts:
                            if isinstance(part, FileSlice):
                                part.close()
                    owner.sent(self)
                if self.last_answer:
                    raise CloseConnection(self.last_answer)
            finally:
                if self._reserved:
                    self.release_answer()
                if self._account is not None:
                    self._close_account()
                self.busy = False
            del parts
            if self.mute.seconds and not owner.stopping:
                self.mute.pause()
                # Part of the next request may have waited with the server.
                stream.active_at = time.monotonic()
            if owner.stopping:
                after_stop += 1
                if after_stop >= _MAX_AFTER_STOP:
                    return
            if time.monotonic() > stream.run_until:
                stream.pace()

    def _charge(self, size: int) -> None:
        account = self._account
        if account is None:
            account = self._account = self._owner.memory.open(self.ip)
        self.waits_for_memory = True
        try:
            waited = self._owner.memory.charge(account, size)
        finally:
            self.waits_for_memory = False
        if waited:
            # The server waited, not the peer: it counts as neither silence nor slowness.
            self._stream.active_at = time.monotonic()
            account.measure_from(self._stream.active_at)

    def _close_account(self) -> None:
        if self._account is not None:
            self._owner.memory.close(self._account)
            self._account = None


class _Parked:
    """The context of `Session.parked`; every wait enters it, and a generator would cost more."""

    __slots__ = ("_session", "_since", "_wake")

    def __init__(self, session: Session, wake: Callable[[], object]) -> None:
        self._session = session
        self._wake = wake

    def __enter__(self) -> None:
        session = self._session
        session._owner.slots.release()
        session._wake = self._wake
        self._since = time.monotonic()

    def __exit__(self, *raised: object) -> None:
        session = self._session
        session._wake = None
        session.parked_s += time.monotonic() - self._since
        session._owner.slots.acquire()


def _kind(reason: str) -> str:
    """Return a reason up to its first digit: the peer may have chosen the number."""
    return re.split(r"\d", reason, maxsplit=1)[0]


def _explain(error: FrameError) -> str:
    what = _FOREIGN.get(error.start)
    return f"{error}; that is {what}, not a request of this protocol" if what else str(error)
