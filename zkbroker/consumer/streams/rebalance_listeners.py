"""The user's listeners of rebalances."""

import logging
from collections.abc import Callable

from zkbroker.rebalance import Owned, OwnershipListener

logger = logging.getLogger(__name__)


class Listeners:
    """All listeners of a connector as one; each is called, even if another one raises."""

    def __init__(self, listeners: list[OwnershipListener]) -> None:
        self._listeners = listeners

    def before_releasing_partitions(self, owned: Owned) -> None:
        self._tell(lambda listener: listener.before_releasing_partitions(owned))

    def before_starting_fetchers(self, consumer_id: str, owned: Owned) -> None:
        self._tell(lambda listener: listener.before_starting_fetchers(consumer_id, owned))

    def _tell(self, call: Callable[[OwnershipListener], None]) -> None:
        for listener in list(self._listeners):
            try:
                call(listener)
            except Exception:
                # A listener's error must not stop the rebalance.
                logger.exception("rebalance listener failed")
