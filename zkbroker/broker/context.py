"""The context of a request: its connection, its principal, and ways to wait and to pace loops.

Invariant: a handler waits inside `park`, and holds no request slot meanwhile. A handler loops over
the items of a request with `paced`, so that no request, however long, makes the others wait for
more than a few milliseconds.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TypeVar

from zkbroker.broker.pacing import RUN_S
from zkbroker.network.server.server import CloseConnection, Session
from zkbroker.runtime.greenlets import yield_turn
from zkbroker.security import ANONYMOUS, Principal

Item = TypeVar("Item")


@dataclass(slots=True)
class RequestContext:
    """One request, as its handler sees it.

    Args:
        session: the connection of the request.
        api_key: of the request's header, as the next three.
        principal: of the sender.
        run_until: when to let others run, on the monotonic clock.
        no_broker: whether the sender is not a broker although it sent a request of brokers.
    """

    session: Session
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    principal: Principal = ANONYMOUS
    run_until: float = field(default_factory=lambda: time.monotonic() + RUN_S)
    no_broker: bool = False

    @property
    def listener(self) -> str:
        """Name of the listener that the client connected to."""
        return self.session.listener

    @property
    def peer(self) -> str:
        """The client's address, without its port."""
        return self.session.ip

    @property
    def peer_gone(self) -> bool:
        """Whether the client was found to have disconnected while the request was parked."""
        return self.session.peer_gone

    def park(self, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Return a context in which to wait without holding a request slot.

        Args:
            wake: called from another greenlet when the client disconnects; `peer_gone` is True
                then.
        """
        return self.session.parked(wake)

    def pace(self) -> bool:
        """Let other requests run if this one has run for too long; return whether they did."""
        if time.monotonic() < self.run_until:
            return False
        yield_turn()
        self.run_until = time.monotonic() + RUN_S
        return True

    def paced(self, items: Collection[Item]) -> Iterable[Item]:
        """Iterate items of the request, and let other requests run in between.

        Work that must be done even if the client has left, such as a produce, uses `pace` instead.

        Raises:
            CloseConnection: the client has disconnected, so the answer would be lost.
        """
        return items if len(items) < 2 else self._paced(items)

    def _paced(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            yield item
            if self.pace() and self.session.peer_closed():
                raise CloseConnection("the client left before its request was done", quiet=True)
