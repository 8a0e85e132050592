"""The users' parts in a rebalance."""

import logging
from collections.abc import Callable

from zkbroker.rebalance import Owned, RebalanceListener

logger = logging.getLogger(__name__)


class Listeners:
    """All listeners of a connector as one; each is told, whatever another one raises."""

    def __init__(self, listeners: list[RebalanceListener]) -> None:
        self._listeners = listeners

    def before_releasing_partitions(self, owned: Owned) -> None:
        self._tell(lambda listener: listener.before_releasing_partitions(owned))

    def before_starting_fetchers(self, consumer_id: str, owned: Owned) -> None:
        self._tell(lambda listener: listener.before_starting_fetchers(consumer_id, owned))

    def _tell(self, call: Callable[[RebalanceListener], None]) -> None:
        for listener in list(self._listeners):
            try:
                call(listener)
            except Exception:
                # The user's own; it must not keep the group from settling.
                logger.exception("rebalance listener failed")
