"""What a handler is told of a request besides its body, and what it may do while it works.

Invariant: a handler that waits does so inside `park`, and holds no request slot meanwhile; a
handler that loops over what the client named does so over `paced`, so that no request, however
long, keeps the others waiting for more than some milliseconds.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

from zkbroker.broker.pacing import RUN_S
from zkbroker.network.server.server import CloseConnection, Session
from zkbroker.protocol import RequestHeader
from zkbroker.runtime.greenlets import yield_turn
from zkbroker.security import ANONYMOUS, Principal

Item = TypeVar("Item")


class RequestContext:
    """One request, as its handler sees it.

    Args:
        session: the connection it came through.
        header: the request's header.
        principal: who sent it.
        now: when it begins, on the monotonic clock.
    """

    __slots__ = (
        "_run_until",
        "_session",
        "api_key",
        "api_version",
        "client_id",
        "correlation_id",
        "principal",
    )

    def __init__(
        self,
        session: Session,
        header: RequestHeader,
        principal: Principal = ANONYMOUS,
        now: float | None = None,
    ) -> None:
        self._session = session
        self.api_key = header.api_key
        self.api_version = header.api_version
        self.correlation_id = header.correlation_id
        self.client_id = header.client_id
        self.principal = principal
        self._run_until = (time.monotonic() if now is None else now) + RUN_S

    @property
    def listener(self) -> str:
        """Name of the listener that the client connected to."""
        return self._session.listener

    @property
    def connection(self) -> int:
        """Which connection of the broker it came through; later ones have greater numbers."""
        return self._session.number

    @property
    def peer(self) -> str:
        """The client's address, without its port."""
        return self._session.ip

    @property
    def peer_gone(self) -> bool:
        """Whether the client was seen to have closed its side while the request was parked."""
        return self._session.peer_gone

    def park(self, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Wait inside for something to happen, without holding a request slot.

        Args:
            wake: called from another greenlet when the client goes; `peer_gone` is true then.
        """
        return self._session.parked(wake)

    def reserve_answer(self, wanted: int) -> int:
        """Set memory aside for the answer; see `Session.reserve_answer`."""
        return self._session.reserve_answer(wanted)

    def correct_answer(self, by: int) -> None:
        """Correct what was set aside when the answer is larger or smaller than that."""
        self._session.correct_answer(by)

    def release_answer(self) -> None:
        """Give back the memory that was set aside for the answer."""
        self._session.release_answer()

    def give_way(self) -> bool:
        """Let other requests run if this one has run for milliseconds; return whether it did."""
        if time.monotonic() < self._run_until:
            return False
        yield_turn()
        self._run_until = time.monotonic() + RUN_S
        return True

    def paced(self, items: Collection[Item]) -> Iterable[Item]:
        """Go through items of the request, giving way to others.

        Not for what must be done even if the client does not wait for the answer, such as a
        produce: use `give_way` there.

        Raises:
            CloseConnection: the client left, and nobody reads the answer.
        """
        return items if len(items) < 2 else self._paced(items)

    def _paced(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            yield item
            if self.give_way() and self._session.peer_closed():
                raise CloseConnection("the client left before its request was done", quiet=True)
