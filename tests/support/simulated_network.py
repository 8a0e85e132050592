"""Connections between simulated brokers: requests and responses are delayed, and may be lost.

One connection keeps the order of its requests. A request on a broken connection may be served after
a request on the next one. A network cut loses all messages on their way. A paused process serves
the received requests when it resumes. The connections of a killed process are closed; after a power
cut the other side gets no notice.
"""

import random as random_module
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

from tests.support.simulated_time import Clock, Process, SimEvent, SimRuntime
from zkbroker.errors import NetworkError, RequestTimedOut

LOST = 0.004


class Peer(Protocol):
    """A process that serves requests."""

    process: Process

    def serve(self, request: Any, context: "SimContext") -> Any: ...


class SimContext:
    """The part of `RequestContext` that handlers use."""

    def __init__(self, version: int, connection: int = 0) -> None:
        self.api_version = version
        self.session = SimpleNamespace(number=connection, release_answer=lambda: None)
        self.peer_gone = False
        self._wake: Callable[[], object] = lambda: None

    @contextmanager
    def park(self, wake: Callable[[], object]) -> Iterator[None]:
        self._wake = wake
        try:
            yield
        finally:
            self._wake = lambda: None

    def client_gone(self) -> None:
        """The client closed its side."""
        self.peer_gone = True
        self._wake()

    def paced(self, items: Iterable[Any]) -> Iterable[Any]:
        return items


@dataclass(eq=False)
class HeldRequest:
    """A request that the network delays until it is released; `matches` chooses it."""

    sender: int
    target: int
    matches: Callable[[Any], bool]
    arrive: Callable[[], None] | None = None


class SimNetwork:
    """The network between all brokers, with its delays and cuts."""

    def __init__(self, clock: Clock, random: random_module.Random) -> None:
        self.clock = clock
        self.random = random
        self.peers: dict[int, Peer] = {}
        self.lost = LOST
        # A slow network delays the followers' copies of acknowledged records.
        self._usual_s = random.choice((0.004, 0.004, 0.1, 0.4))
        self._cut_until: dict[tuple[int, int], float] = {}
        self._held: list[HeldRequest] = []
        self._connections: dict[Process, list[SimConnection]] = {}
        self.opened = 0

    def cut(self, one: int, other: int, seconds: float) -> None:
        """Cut the network between two brokers for some seconds."""
        until = self.clock.now + seconds
        for pair in ((one, other), (other, one)):
            self._cut_until[pair] = max(until, self._cut_until.get(pair, 0.0))

    def hold(self, sender: int, target: int, matches: Callable[[Any], bool]) -> "HeldRequest":
        """Delay the next request that matches until it is released."""
        held = HeldRequest(sender, target, matches)
        self._held.append(held)
        return held

    def release(self, held: "HeldRequest") -> None:
        """Let a held request arrive, and hold none for it any more."""
        if held in self._held:
            self._held.remove(held)
        if held.arrive is not None:
            self.clock.at(self.clock.now, None, held.arrive)
            held.arrive = None

    def heal(self) -> None:
        self._cut_until.clear()
        self.lost = 0.0
        for held in tuple(self._held):
            self.release(held)

    def reaches(self, sender: int, target: int) -> bool:
        return self.clock.now >= self._cut_until.get((sender, target), 0.0)

    def delay(self) -> float:
        """Return a delay of some milliseconds; rarely longer, so that a later message overtakes."""
        chance = self.random.random()
        if chance < 0.94:
            return 0.0005 + chance * self._usual_s
        return self.random.uniform(0.005, 0.1) if chance < 0.99 else self.random.uniform(0.1, 2.5)

    def connect(self, sender: int, runtime: SimRuntime, target: int, timeout_s: float) -> Any:
        connection = SimConnection(self, sender, runtime, target, timeout_s)
        open_connections = self._connections.setdefault(runtime.process, [])
        open_connections[:] = [each for each in open_connections if not each.closed]
        open_connections.append(connection)
        return connection

    def send_on(
        self, sender: int, target: int, request: Any, delay_s: float, arrive: Callable[[], None]
    ) -> None:
        """Deliver a request after a delay, unless it is held."""
        for held in self._held:
            if (held.sender, held.target) == (sender, target) and held.matches(request):
                self._held.remove(held)
                held.arrive = arrive
                return
        self.clock.at(self.clock.now + delay_s, None, arrive)

    def died(self, process: Process, *, silently: bool) -> None:
        """A process ended: its connections are closed, but not after a power cut (`silently`)."""
        for connection in self._connections.pop(process, []):
            if not silently:
                connection.hang_up()


class SimConnection:
    """A connection with one request in flight; after a failure the next request opens another."""

    def __init__(
        self, network: SimNetwork, sender: int, runtime: SimRuntime, target: int, timeout_s: float
    ) -> None:
        self._network = network
        self._sender = sender
        self._runtime = runtime
        self._target = target
        self._timeout_s = timeout_s
        self._answered: SimEvent | None = None
        self._context: SimContext | None = None
        self._peer: Peer | None = None
        self._number = 0
        self.closed = False

    def send(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer.

        Raises:
            NetworkError: the connection broke; whether the request was served is unknown.
        """
        network = self._network
        clock, random = network.clock, network.random
        peer = network.peers[self._target]
        if self._peer is not peer:
            self._peer = peer  # the process that listens there now
            network.opened += 1
            self._number = network.opened
        context = self._context = SimContext(version, self._number)
        answered = self._answered = self._runtime.event()
        answer: list[Any] = []
        fate = random.random()

        def finish(result: Any = None) -> None:
            if not network.reaches(self._target, self._sender):
                return  # lost on its way
            if result is not None:
                answer.append(result)
            answered.set()

        def arrive() -> None:
            if not network.reaches(self._sender, self._target) or fate < network.lost / 2:
                return  # the sender waits until its request times out
            if peer.process.dead:
                clock.at(clock.now + 0.001, self._runtime.process, finish)
            else:
                clock.at(clock.now, peer.process, lambda: clock.spawn(peer.process, serve))

        def serve() -> None:
            result = peer.serve(request, context)
            if not network.reaches(self._target, self._sender):
                return
            broken = result is None or network.lost / 2 <= fate < network.lost
            clock.at(
                clock.now + network.delay(),
                self._runtime.process,
                finish if broken else lambda: finish(result),
            )

        network.send_on(self._sender, self._target, request, network.delay(), arrive)
        if not answered.wait(self._timeout_s):
            self._break()
            raise RequestTimedOut("no answer")
        if not answer:
            self._break()
            raise NetworkError("the connection broke")
        self._context = None
        return answer[0]

    def _break(self) -> None:
        self.hang_up()
        self._peer = None

    def hang_up(self) -> None:
        """Tell the other side that its response is not awaited any more."""
        context, self._context = self._context, None
        peer = self._peer
        if context is not None and peer is not None:
            network = self._network
            clock = network.clock

            def arrive() -> None:
                if network.reaches(self._sender, self._target):
                    clock.at(clock.now, peer.process, context.client_gone)

            clock.at(clock.now + network.delay(), None, arrive)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.hang_up()
            if self._answered is not None:
                self._answered.set()
