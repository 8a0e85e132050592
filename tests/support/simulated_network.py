"""Connections between simulated brokers: requests and answers take time, and get lost with them.

On one connection everything keeps its order; two connections have nothing to do with one another,
so that what was sent through one that broke may be served after what came through the next one.
What is on its way when two brokers are parted is lost. A
process that is paused serves what reached it when it goes on. One that dies has its connections
closed; after a power cut nobody is told.
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
    """What a handler sees of a request, as `RequestContext` tells it."""

    def __init__(self, version: int, connection: int = 0) -> None:
        self.api_version = version
        self.session = SimpleNamespace(number=connection)
        self.peer_gone = False
        self._wake: Callable[[], object] = lambda: None

    @contextmanager
    def park(self, wake: Callable[[], object]) -> Iterator[None]:
        self._wake = wake
        try:
            yield
        finally:
            self._wake = lambda: None

    def gone(self) -> None:
        """The client closed its side."""
        self.peer_gone = True
        self._wake()

    def paced(self, items: Iterable[Any]) -> Iterable[Any]:
        return items

    def reserve_answer(self, wanted: int) -> int:
        return wanted

    def release_answer(self) -> None: ...


@dataclass(eq=False)
class Held:
    """A request that is to be kept on its way, or is."""

    sender: int
    target: int
    wanted: Callable[[Any], bool]
    arrive: Callable[[], None] | None = None


class SimNetwork:
    """Who can reach whom, and how fast."""

    def __init__(self, clock: Clock, random: random_module.Random) -> None:
        self.clock = clock
        self.random = random
        self.peers: dict[int, Peer] = {}
        self.lost = LOST
        # On a slow network what a leader has acknowledged is longer on its way to the others.
        self._usual_s = random.choice((0.004, 0.004, 0.1, 0.4))
        self._cut_until: dict[tuple[int, int], float] = {}
        self._held: list[Held] = []
        self._connections: dict[Process, list[SimConnection]] = {}
        self.opened = 0

    def cut(self, one: int, other: int, seconds: float) -> None:
        """Nothing arrives between two brokers for a while."""
        until = self.clock.now + seconds
        for pair in ((one, other), (other, one)):
            self._cut_until[pair] = max(until, self._cut_until.get(pair, 0.0))

    def hold(self, sender: int, target: int, wanted: Callable[[Any], bool]) -> "Held":
        """Keep the next such request on its way until it is released."""
        held = Held(sender, target, wanted)
        self._held.append(held)
        return held

    def release(self, held: "Held") -> None:
        """Let a request arrive that was held; none is held any more."""
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
        """A few milliseconds; now and then long enough to overtake what came later."""
        chance = self.random.random()
        if chance < 0.94:
            return 0.0005 + chance * self._usual_s
        return self.random.uniform(0.005, 0.1) if chance < 0.99 else self.random.uniform(0.1, 2.5)

    def connect(self, sender: int, runtime: SimRuntime, target: int, timeout_s: float) -> Any:
        connection = SimConnection(self, sender, runtime, target, timeout_s)
        known = self._connections.setdefault(runtime.process, [])
        known[:] = [each for each in known if not each.closed]
        known.append(connection)
        return connection

    def send_on(
        self, sender: int, target: int, request: Any, delay_s: float, arrive: Callable[[], None]
    ) -> None:
        """Bring a request to where it is sent, unless it is held on its way."""
        for held in self._held:
            if (held.sender, held.target) == (sender, target) and held.wanted(request):
                self._held.remove(held)
                held.arrive = arrive
                return
        self.clock.at(self.clock.now + delay_s, None, arrive)

    def died(self, process: Process, *, silently: bool) -> None:
        """A process is no more: its connections are closed, unless nobody was left to say so."""
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
                return  # the sender waits until its patience is over
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
        """Let the other side know that nobody waits for its answer any more."""
        context, self._context = self._context, None
        peer = self._peer
        if context is not None and peer is not None:
            network = self._network
            clock = network.clock

            def arrive() -> None:
                if network.reaches(self._sender, self._target):
                    clock.at(clock.now, peer.process, context.gone)

            clock.at(clock.now + network.delay(), None, arrive)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.hang_up()
            if self._answered is not None:
                self._answered.set()
