"""The context of a request: its connection, its principal, and what a handler may do meanwhile.

Invariant: a handler that waits does so inside `park`, and holds no request slot meanwhile; a
handler that loops over what the client named does so over `paced`, so that no request, however
long, keeps the others waiting for more than some milliseconds.
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
        session: the connection it came through.
        api_key: of the request's header, as the next three.
        principal: of the sender.
        run_until: when others are to get their turn, on the monotonic clock.
        no_broker: whether the sender asked for what brokers alone may do, and is none.
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
        """Whether the client was seen to have closed its side while the request was parked."""
        return self.session.peer_gone

    def park(self, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Wait inside for something to happen, without holding a request slot.

        Args:
            wake: called from another greenlet when the client goes; `peer_gone` is true then.
        """
        return self.session.parked(wake)

    def reserve_answer(self, wanted: int) -> int:
        """Set memory aside for the answer; see `Session.reserve_answer`."""
        return self.session.reserve_answer(wanted)

    def correct_answer(self, by: int) -> None:
        """Correct what was set aside when the answer is larger or smaller than that."""
        self.session.correct_answer(by)

    def release_answer(self) -> None:
        """Give back the memory that was set aside for the answer."""
        self.session.release_answer()

    def pace(self) -> bool:
        """Let other requests run if this one has run for milliseconds; return whether it did."""
        if time.monotonic() < self.run_until:
            return False
        yield_turn()
        self.run_until = time.monotonic() + RUN_S
        return True

    def paced(self, items: Collection[Item]) -> Iterable[Item]:
        """Go through items of the request, giving way to others.

        Not for what must be done even if the client does not wait for the answer, such as a
        produce: use `pace` there.

        Raises:
            CloseConnection: the client went, so the answer would be lost.
        """
        return items if len(items) < 2 else self._paced(items)

    def _paced(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            yield item
            if self.pace() and self.session.peer_closed():
                raise CloseConnection("the client left before its request was done", quiet=True)
