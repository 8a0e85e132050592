"""A ZooKeeper session on a virtual clock, with delays and faults.

`SimSession` has the part of `ZkSession` that consumer groups and brokers use, and behaves like it:

    - requests and answers take time and keep their order
    - without a connection, a read waits for it and a change fails at once
    - a request whose answer is lost fails with ConnectionLost, even if it was carried out
    - a watch fires once; all watches fire when the connection breaks
    - the client learns that its session has expired (LOST) when it reconnects
"""

from collections.abc import Callable, Sequence
from typing import Any

import greenlet

from tests.support.simulated_calls import ServerCalls
from tests.support.simulated_time import Process, SimRuntime
from tests.support.simulated_zookeeper import SimZooKeeper
from zkbroker.errors import RegistryError
from zkbroker.zookeeper import (
    ConnectionLost,
    NodeStat,
    SessionLost,
    SessionState,
    TransactionFailed,
)


class _Request:
    __slots__ = ("answer", "done", "error", "waiting")

    def __init__(self, waiting: Any) -> None:
        self.waiting = waiting
        self.answer: Any = None
        self.error: RegistryError | None = None
        self.done = False


class SimSession(ServerCalls):
    """A client's session."""

    def __init__(self, server: SimZooKeeper, process: Process) -> None:
        self.server = server
        self.clock = server.clock
        self.process = process
        self.runtime = SimRuntime(self.clock, process)
        self.generation = 0
        self.closed = False
        self.state = SessionState.CONNECTED
        self.session_id = server.open(self)
        self._callbacks: list[Callable[[SessionState], object]] = []
        # Numbers of faults and of connections: a short fault does not end the connection.
        self._link = 0
        self._connection = 0
        self._broken = False
        self._silent = False
        self._silence = 0
        self._heard_until = 0.0
        self._last_out = self._last_in = 0.0
        self._requests: list[_Request] = []
        self._queue: list[tuple[_Request, Callable[[], Any]]] = []
        self._stalled_out: list[tuple[_Request, Callable[[], Any]]] = []
        self._stalled_in: list[Callable[[], object]] = []
        self._fired: list[Any] = []

    # -- faults of the connection

    @property
    def alive_at_server(self) -> bool:
        return self.session_id in self.server.sessions

    def connectivity_changed(self) -> None:
        """Start or stop the session's expiry, after the link or the process changed."""
        silent = self._broken or self.process.frozen or self.process.dead
        if silent == self._silent:
            return
        self._silent = silent
        self._silence += 1
        if not silent:
            return
        silence, number = self._silence, self.session_id
        # Server and client count from the last heartbeat.
        self._heard_until = self.clock.now - self.server.random.uniform(
            0.0, self.server.session_timeout_s / 3
        )

        def give_up() -> None:
            if self._silence == silence:
                self.server.expire(number)

        self.clock.at(self._heard_until + self.server.session_timeout_s, None, give_up)

    def lease_valid(self) -> bool:
        if self.state is SessionState.LOST:
            return False
        return not self._silent or (
            self.clock.now - self._heard_until < self.server.session_timeout_s
        )

    def break_link(self, heal_after_s: float) -> None:
        """Break the connection; the client notices later, unless it heals before."""
        if self._broken or self.closed:
            return
        self._broken = True
        self._link += 1
        link = self._link
        self.connectivity_changed()
        notice = self.server.session_timeout_s * self.server.random.uniform(0.0, 0.66)

        def heal_unnoticed() -> None:
            if self._link == link and self.state is SessionState.CONNECTED and self._broken:
                self._heal_unnoticed()

        if self.state is not SessionState.CONNECTED:
            # The client is connecting already: that takes longer now.
            self.clock.at(
                self.clock.now + heal_after_s, self.process, lambda: self._reconnect(link)
            )
        elif heal_after_s < notice:
            self.clock.at(self.clock.now + heal_after_s, None, heal_unnoticed)
        else:
            self.clock.at(self.clock.now + notice, self.process, lambda: self._suspend(link))
            self.clock.at(
                self.clock.now + heal_after_s, self.process, lambda: self._reconnect(link)
            )

    def _heal_unnoticed(self) -> None:
        if not self.alive_at_server:
            # The server answers the next packet by closing the connection.
            link = self._link
            self.clock.at(self.clock.now, self.process, lambda: self._suspend(link))
            self.clock.at(self.clock.now + 0.01, self.process, lambda: self._reconnect(link))
            return
        self._broken = False
        self.connectivity_changed()
        stalled, self._stalled_out = self._stalled_out, []
        for request, execute in stalled:
            self._send(request, execute)
        arrived, self._stalled_in = self._stalled_in, []
        for act in arrived:
            self.clock.at(self.clock.now, self.process, act)

    def freeze(self, seconds: float) -> None:
        """Pause the process."""
        self.clock.freeze(self.process)
        self.connectivity_changed()
        self.clock.at(self.clock.now + seconds, None, self._thaw)

    def _thaw(self) -> None:
        if not self.process.dead:
            self.process.frozen = False
            self._thawed()
            self.clock.resume(self.process)

    def kill(self) -> None:
        """End the process; the server keeps the session until its timeout."""
        self.process.dead = True
        self.connectivity_changed()

    def _thawed(self) -> None:
        if self.closed or self._broken:
            return
        if self.alive_at_server:
            self.connectivity_changed()
            return
        self._broken = True
        self._link += 1
        link = self._link
        delay = self.server.random.uniform(0.0, 0.2)
        self.clock.at(self.clock.now + delay, self.process, lambda: self._suspend(link))
        self.clock.at(self.clock.now + delay + 0.02, self.process, lambda: self._reconnect(link))

    def _suspend(self, link: int) -> None:
        if self.closed or link != self._link or self.state is not SessionState.CONNECTED:
            return
        self._connection += 1
        self._stalled_out.clear()
        self._stalled_in.clear()
        self._fail_all(ConnectionLost("the connection broke"))
        self._change(SessionState.SUSPENDED)
        # The notifications on their way are lost.
        fired, self._fired = self._fired, []
        for watch in (*self.server.forget_watches(self), *fired):
            watch.set()

    def _reconnect(self, link: int) -> None:
        if self.closed or link != self._link:
            return
        if self.state is SessionState.CONNECTED:
            self._suspend(link)
        self._broken = False
        if self.alive_at_server:
            self.connectivity_changed()
            self._connected()
            return
        self.generation += 1
        self._fail_all(SessionLost("the session is over"))
        self._queue.clear()
        self._change(SessionState.LOST)
        delay = self.server.random.uniform(0.0, 0.1)
        self.clock.at(self.clock.now + delay, self.process, lambda: self._renew(link))

    def _renew(self, link: int) -> None:
        if self.closed or link != self._link:
            return
        self.session_id = self.server.open(self)
        self._silent = False
        self._silence += 1
        self._connected()

    def _connected(self) -> None:
        self._change(SessionState.CONNECTED)
        queue, self._queue = self._queue, []
        for request, execute in queue:
            self._send(request, execute)

    def _change(self, state: SessionState) -> None:
        self.state = state
        for callback in tuple(self._callbacks):
            callback(state)

    def _fail_all(self, error: RegistryError) -> None:
        waiting = {id(request) for request, _ in self._queue}
        for request in list(self._requests):
            if isinstance(error, SessionLost) or id(request) not in waiting:
                self._finish(request, None, error)

    def on_state(self, callback: Callable[[SessionState], object]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)

    def close(self) -> None:
        self.closed = True
        self._fail_all(SessionLost("closed"))
        self.server.forget_watches(self)
        self.server.expire(self.session_id)

    # -- requests

    def _call(self, execute: Callable[[], Any], reads: bool = False) -> Any:
        if self.closed or self.state is SessionState.LOST:
            raise SessionLost("the session is over")
        if self.state is SessionState.SUSPENDED and not reads:
            raise ConnectionLost("not connected")
        request = _Request(greenlet.getcurrent())
        self._requests.append(request)
        if self.state is SessionState.SUSPENDED:
            self._queue.append((request, execute))
            # The request is sent on reconnection even if it has timed out.
            self.clock.at(
                self.clock.now + self.server.session_timeout_s + 2,
                self.process,
                lambda: self._finish(request, None, ConnectionLost("no answer")),
            )
        else:
            self._send(request, execute)
        self.clock.switch_to_hub()
        if request.error is not None:
            raise request.error
        return request.answer

    def _delay(self) -> float:
        # A few milliseconds; one in twenty takes up to a fifth of a second.
        chance = self.server.random.random()
        return 0.0005 + chance * 0.004 if chance < 0.95 else (chance - 0.95) * 4

    def _send(self, request: _Request, execute: Callable[[], Any]) -> None:
        if self._broken:
            self._stalled_out.append((request, execute))
            return
        self._last_out = max(self.clock.now + self._delay(), self._last_out)
        connection = self._connection

        def arrive() -> None:
            if connection != self._connection:
                return
            if self._broken:
                self._stalled_out.append((request, execute))
                return
            if not self.alive_at_server:
                return
            try:
                answer, error = execute(), None
            except RegistryError as refused:
                answer, error = None, refused
            self._deliver(lambda: self._finish(request, answer, error, at_once=True))

        self.clock.at(self._last_out, None, arrive)

    def fired(self, watch: Any) -> None:
        """A watch fired at the server."""
        self._fired.append(watch)

        def heard() -> None:
            self._fired.remove(watch)
            watch.set()

        self._deliver(heard)

    def _deliver(self, act: Callable[[], object]) -> None:
        """Deliver a message of the server to the client, in order."""
        self._last_in = max(self.clock.now + self._delay(), self._last_in)
        connection = self._connection

        def arrive() -> None:
            if connection != self._connection:
                return
            if self._broken:
                self._stalled_in.append(act)
            else:
                act()

        self.clock.at(self._last_in, self.process, arrive)

    def _finish(
        self, request: _Request, answer: Any, error: RegistryError | None, at_once: bool = False
    ) -> None:
        if request.done:
            return
        request.done = True
        request.answer, request.error = answer, error
        self._requests.remove(request)
        if at_once:
            request.waiting.switch()
        else:
            # The callbacks of a state change may still be running.
            self.clock.at(self.clock.now, self.process, request.waiting.switch)

    def _read(self, execute: Callable[[], Any], *paths: str) -> Any:
        deadline = self.clock.now + self.server.session_timeout_s + 2
        while True:
            try:
                return self._call(execute, reads=True)
            except ConnectionLost:
                if self.clock.now >= deadline or self.closed:
                    raise

    def _write(self, execute: Callable[[], Any], *paths: str) -> Any:
        return self._call(execute)

    def _transact(self, batches: Sequence[Sequence[Any]]) -> list[TransactionFailed | None]:
        refused = super()._transact(batches)
        if self.server.random.random() < self.server.answers_lost:
            # The transactions are carried out, but the answer is lost.
            self.server.on_answer_lost(self)
        return refused

    def get_many(
        self, paths: Sequence[str], watches: Sequence[Any] | None = None
    ) -> list[tuple[bytes, NodeStat] | None]:
        everything = list(zip(paths, watches or [None] * len(paths), strict=True))
        # Other clients may change nodes between two reads; one such gap is enough for a run.
        cut = self.server.random.randrange(len(everything) + 1) if everything else 0
        answers: list[tuple[bytes, NodeStat] | None] = []
        for part in (everything[:cut], everything[cut:]):
            if part:
                answers += self._read(lambda part=part: self._find_all(part))
        return answers

    def exists_many(
        self, paths: Sequence[str], watches: Sequence[Any] | None = None
    ) -> list[NodeStat | None]:
        return [
            self.exists(path, watch)
            for path, watch in zip(paths, watches or [None] * len(paths), strict=True)
        ]

    def wait_connected(self, timeout_s: float | None = None) -> bool:
        if self.state is not SessionState.CONNECTED and timeout_s:
            self.clock.sleep(self.process, timeout_s)
        return self.state is SessionState.CONNECTED
