"""The broker's server: listening sockets, a greenlet for each connection, and the limits.

Invariant: every resource that a peer can make the server hold is bounded by a field of `Limits`.
Anything beyond is refused with a log line, without an effect on other connections.
"""

import errno
import logging
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import gevent
import gevent.lock
import gevent.pool

from zkbroker.network.frames import FrameReader
from zkbroker.network.server.binding import Listener, bind
from zkbroker.network.server.busy_poll import BusyPoll, HubEvents
from zkbroker.network.server.connection_rates import ConnectionRates
from zkbroker.network.server.limits import Limits
from zkbroker.network.server.metrics import ServerMetrics
from zkbroker.network.server.request_memory import RequestMemory
from zkbroker.network.server.session import CloseConnection, Session
from zkbroker.network.server.stream import HubStream
from zkbroker.network.transport import Part
from zkbroker.runtime.greenlets import yield_turn
from zkbroker.runtime.repeated_lines import RepeatedLines

__all__ = ["CloseConnection", "Listener", "Server", "Session"]

logger = logging.getLogger(__name__)

_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_ACCEPT_BURST = 64
# One system call receives several pipelined requests; copying them out costs less than more calls.
_SCRATCH_BYTES = 64 * 1024
_ACCEPT_PAUSE_S = 0.05
_ANSWER_SHARE = 8
_TURNED_AWAY_S = 1.0
_MAX_TURNED_AWAY = 100
"""Refused connections that may wait to be closed; more are closed at once."""
_LEAST_ANSWER_BYTES = 64 * 1024


Transports = Callable[[str, socket.socket], HubStream | None]


Handle = Callable[[Session, memoryview], Sequence[Part] | None]
"""See `Server.start`."""


@dataclass(frozen=True, slots=True)
class Gate:
    """The handler of a listener that lets peers in only after a login.

    Args:
        handle: called with every request of the listener, in place of the server's handler.
        max_frame_bytes: the longest request before the login is complete.
        max_login_s: how long a login may take, in seconds.
    """

    handle: Handle
    max_frame_bytes: int
    max_login_s: float


def _ignore(session: Session) -> None:
    pass


class Server:
    """Accepts connections and hands each request to a handler.

    Args:
        listeners: the addresses to listen on.
        limits: of connections, requests and memory.
        clock: monotonic seconds.
        transport: makes the transport of an accepted socket, by the name of its listener; None
            stands for a plain one.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        transport: Transports | None = None,
    ) -> None:
        self._transport = transport
        self.limits = limits
        self._scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self.stopping = False
        """Whether `stop` was called."""
        self._admitted = 0
        self.repeated = RepeatedLines(clock=clock)
        """Limits the log lines of connections that were closed for errors of their peers."""
        self.refused = 0
        """How many connections were refused by a limit."""
        self._listeners = tuple(listeners)
        self._handle: Handle
        self._gates: dict[str, Gate] = {}
        self.sent: Callable[[Session], object] = _ignore
        """Called when an answer of a session has been sent."""
        self._clock = clock
        self._sockets: list[socket.socket] = []
        self._accepting: list[gevent.Greenlet] = []
        self._sessions: dict[Session, gevent.Greenlet] = {}
        self._per_ip: dict[str, int] = {}
        self.rates = ConnectionRates(limits.creation, clock)
        self._turned_away = 0
        self.slots = gevent.lock.Semaphore(limits.max_queued_requests)
        """The request slots: one for each request that may be handled at once."""
        self.memory = RequestMemory(limits.max_queued_request_bytes)
        """The memory of the large requests of all sessions."""
        self._answer_bytes = 0
        self._hub = gevent.get_hub()
        polls = limits.busy_poll_s > 0 and HubEvents.known(self._hub)
        self._events = HubEvents(self._hub) if polls else None
        self._warned_at = float("-inf")
        self.addresses: dict[str, tuple[str, int]] = {}
        """Listener name → bound host and port; filled by `listen`."""

    @property
    def connections(self) -> int:
        return len(self._sessions)

    def figures(self) -> ServerMetrics:
        """Return the present figures for operators."""
        counts = Counter(dict.fromkeys(self.addresses, 0))
        counts.update(session.listener for session in self._sessions)
        return ServerMetrics(
            connections=counts,
            accepted=self._admitted,
            refused=self.refused,
            requests_handled=self.limits.max_queued_requests - self.slots.counter,
            requests_waiting=self.slots.linkcount(),
            request_bytes=self.memory.held,
        )

    def listen(self) -> None:
        """Bind every listener; connections wait in the backlog until `start`.

        Raises:
            OSError: an address cannot be bound.
        """
        try:
            for listener in self._listeners:
                bound = bind(listener, self.limits.receive_buffer_bytes)
                self._sockets.append(bound)
                self.addresses[listener.name] = bound.getsockname()[:2]
        except OSError:
            self._close_sockets()
            raise

    def start(
        self,
        handle: Handle,
        sent: Callable[[Session], object] = _ignore,
        gates: Mapping[str, Gate] | None = None,
    ) -> None:
        """Accept connections.

        Args:
            handle: called with the session and a request's bytes without their length; returns the
                parts of the answer, or None for no answer. It may wait, and raise
                `CloseConnection`.
            sent: called when an answer has been sent.
            gates: name of a listener → the gate that takes the place of `handle` there.
        """
        self._handle, self.sent = handle, sent
        self._gates = dict(gates or {})
        for listener, bound in zip(self._listeners, self._sockets, strict=True):
            self._accepting.append(gevent.spawn(self._accept, listener, bound))
        self._accepting.append(gevent.spawn(self._sweep))

    def stop_accepting(self) -> None:
        """Close the listening sockets; open connections go on."""
        gevent.killall(self._accepting)
        self._accepting.clear()
        self._close_sockets()

    def stop(self, timeout_s: float) -> None:
        """Answer the requests that have arrived, then close every connection.

        Connections that are still open after `timeout_s` are cut.
        """
        self.stopping = True
        self.stop_accepting()
        for session in list(self._sessions):
            session.finish()
        tasks = list(self._sessions.values())
        gevent.joinall(tasks, timeout=timeout_s)
        if self._sessions:
            logger.warning("connections cut at shutdown count=%d", len(self._sessions))
            for session in list(self._sessions):
                session.abort("broker stops")
            gevent.joinall(tasks, timeout=1.0)
            gevent.killall(tasks, timeout=1.0)

    def reserve_answer(self, wanted: int) -> int:
        """Give an answer its share of the memory for answers.

        A share is a fraction of the memory that is left, so clients that do not read their answers
        make later answers smaller and never delay them.
        """
        left = self.limits.max_answer_bytes - self._answer_bytes
        given = min(wanted, max(left // _ANSWER_SHARE, _LEAST_ANSWER_BYTES))
        self._answer_bytes += given
        return given

    def release_answer(self, size: int) -> None:
        """Return memory that `reserve_answer` gave."""
        self._answer_bytes -= size

    def unmute(self) -> None:
        """End the pauses of all muted connections."""
        for session in list(self._sessions):
            session.mute.end()

    def _accept(self, listener: Listener, bound: socket.socket) -> None:
        watcher = self._hub.loop.io(bound.fileno(), 1)
        burst = 0
        while True:
            try:
                connection, peer = bound.accept()
            except BlockingIOError:
                burst = 0
                self._hub.wait(watcher)
                continue
            except OSError as error:
                # Also raised for a connection that the client closed before it was accepted.
                if error.errno in _OUT_OF_RESOURCES:
                    self._warn(f"cannot accept connections: {error}")
                gevent.sleep(_ACCEPT_PAUSE_S)
                continue
            try:
                self._admit(connection, peer, listener)
            except Exception as error:  # noqa: BLE001 - logged
                # A connection that fails while it is set up must not end the listener.
                connection.close()
                self._warn(f"connection not accepted peer={peer[0]} reason={error!r}")
            pause_s = self.rates.accepted(listener.name)
            if pause_s:
                self._warn(
                    f"connections come too fast listener={listener.name} pause_s={pause_s:.3f}"
                )
                gevent.sleep(pause_s)
            burst += 1
            if burst % _ACCEPT_BURST == 0:
                yield_turn()

    def _admit(self, connection: socket.socket, peer: tuple[str, int], listener: Listener) -> None:
        ip = peer[0].removeprefix("::ffff:")
        of_ip = self._per_ip.get(ip, 0)
        limits = self.limits
        allowed = limits.max_connections_overrides.get(ip, limits.max_connections_per_ip)
        if len(self._sessions) >= limits.max_connections or of_ip >= allowed:
            self.refused += 1
            which = "max.connections.per.ip" if of_ip >= allowed else "max.connections"
            self._warn(f"connection refused peer={ip} limit={which} open={len(self._sessions)}")
            connection.close()
            return
        refused_s = self.rates.refused_s(ip)
        if refused_s:
            self._turn_away(connection, ip, refused_s)
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if limits.send_buffer_bytes > 0:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        stream: HubStream | None = None
        if self._transport is not None:
            stream = self._transport(listener.name, connection)
        if stream is None:
            stream = HubStream(connection, self._hub)
            if self._events is not None:
                stream.busy_poll = BusyPoll(connection.fileno(), self._events, limits.busy_poll_s)
        gate = self._gates.get(listener.name)
        longest = limits.max_request_bytes if gate is None else gate.max_frame_bytes
        reader = FrameReader(stream.receive_into, longest, self._scratch)
        self._admitted += 1
        session = Session(
            self,
            stream,
            reader,
            address=f"{ip}:{peer[1]}",
            ip=ip,
            listener=listener.name,
            number=self._admitted,
            protocol=listener.protocol,
        )
        if gate is not None:
            session.log_in_until = self._clock() + gate.max_login_s
        self._per_ip[ip] = of_ip + 1
        self._sessions[session] = gevent.spawn(self._serve, session)

    def _turn_away(self, connection: socket.socket, ip: str, seconds: float) -> None:
        """Close a connection of an address above its rate after a delay.

        A client whose connection is closed at once would retry at once.
        """
        self.refused += 1
        self._warn(f"connection refused peer={ip} limit=connection_creation_rate")
        if self._turned_away >= _MAX_TURNED_AWAY:
            connection.close()
            return
        self._turned_away += 1

        def close() -> None:
            self._turned_away -= 1
            connection.close()

        gevent.spawn_later(min(seconds, _TURNED_AWAY_S), close)

    def _serve(self, session: Session) -> None:
        try:
            gate = self._gates.get(session.listener)
            session.serve(self._handle if gate is None else gate.handle)
        finally:
            del self._sessions[session]
            left = self._per_ip[session.ip] - 1
            if left:
                self._per_ip[session.ip] = left
            else:
                del self._per_ip[session.ip]

    def _sweep(self) -> None:
        """Close connections that are idle, slow or not logged in; notice peers that are gone."""
        limits = self.limits
        pause_s = min(1.0, limits.max_idle_s / 4, limits.max_frame_s / 4, limits.rate_window_s / 2)
        while True:
            gevent.sleep(pause_s)
            self._notice_gone_peers()
            now = self._clock()
            for session in list(self._sessions):
                if (session.busy and not session.writing) or session.waits_for_memory:
                    continue
                if (
                    session.too_slow(now, limits.min_bytes_per_s, limits.rate_window_s)
                    and self.memory.short
                ):
                    session.abort(
                        f"slow: less than {limits.min_bytes_per_s} bytes/s of a large request, and "
                        "others wait for memory"
                    )
                    continue
                if now > session.log_in_until:
                    # Even if bytes arrive all the time.
                    session.abort("timed out: no login in time")
                    continue
                silent_s = now - session.active_at
                reads = not session.writing and not session.mute.on
                if session.in_frame and reads and silent_s > limits.max_frame_s:
                    session.abort(f"timed out: part of a request, then {silent_s:.0f} s of silence")
                elif silent_s > limits.max_idle_s:
                    what = "its answers were not read" if session.writing else "idle"
                    session.abort(f"timed out: {what} for {silent_s:.0f} s")

    def _notice_gone_peers(self) -> None:
        # A connection with a waiting request is not read, so its end is noticed only here.
        waiting = [
            session
            for session in self._sessions
            if session.parked_for_peer and not session.peer_gone
        ]
        if not waiting:
            return
        poller = select.poll()
        by_descriptor = {session.watch_peer(poller): session for session in waiting}
        for descriptor, _ in poller.poll(0):
            by_descriptor[descriptor].peer_left()

    def _warn(self, text: str) -> None:
        now = self._clock()
        if now - self._warned_at >= 1.0:
            self._warned_at = now
            logger.warning(text)

    def _close_sockets(self) -> None:
        for bound in self._sockets:
            bound.close()
        self._sockets.clear()
