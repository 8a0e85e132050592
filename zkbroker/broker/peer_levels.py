"""Says so where brokers of a cluster speak to each other in generations that do not go together.

    registration   version 1: Kafka 0.8.2   2: 0.9, or a later one set to such a level
                   3 and more: 0.10 and later, or one of ours, which names its level

Brokers do not negotiate: the level of the sender fixes the version of each request. Those of 2.1 to
2.3 are read here, whichever is set; 0.8.2 and the later ones lose what the other one needs. Genuine
brokers neither refuse such a cluster, which is there for a moment whenever the level of one broker
after the other is raised, so that it is a warning.

Invariant: each peer is logged once, until it leaves or registers with another level.
"""

import logging
from collections.abc import Mapping

from zkbroker.config.levels import LEVELS
from zkbroker.registry.brokers import BrokerInfo

logger = logging.getLogger(__name__)

OLD = LEVELS[0]
_LEVELS_SINCE = 3
"""The version of a registration from which on no genuine broker has a level like 0.8.2."""


class PeerLevels:
    """Compares `inter.broker.protocol.version` with what other brokers registered."""

    def __init__(self, broker_id: int, level: str) -> None:
        self._broker_id = broker_id
        self._level = level
        self._told: set[int] = set()

    def look(self, brokers: Mapping[int, BrokerInfo]) -> None:
        """Warn of brokers whose level does not fit that of this broker.

        Args:
            brokers: all that are registered, by id.
        """
        others = {
            number
            for number, info in brokers.items()
            if number != self._broker_id and _is_old(info) != (self._level == OLD)
        }
        fresh = sorted(others - self._told)
        self._told = others
        if not fresh:
            return
        if self._level == OLD:
            logger.warning(
                "inter.broker.protocol.version=%s here, and brokers %s have a later one: what is "
                "copied from them to this broker loses timestamps, headers and producer ids. Set "
                "inter.broker.protocol.version to their release (%s), and "
                "log.message.format.version likewise, at every broker of the cluster",
                self._level,
                fresh,
                ", ".join(LEVELS[1:]),
            )
        else:
            logger.warning(
                "inter.broker.protocol.version=%s here, and brokers %s have %s: they cannot read "
                "what a controller or a follower of a later level sends. Set "
                "inter.broker.protocol.version=%s and log.message.format.version=%s here for as "
                "long as they are in the cluster",
                self._level,
                fresh,
                OLD,
                OLD,
                OLD,
            )


def _is_old(info: BrokerInfo) -> bool:
    return info.level == OLD if info.level else info.version < _LEVELS_SINCE
