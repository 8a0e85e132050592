"""Warns if brokers of a cluster have incompatible levels of the inter-broker protocol.

    registration   version 1: Kafka 0.8.2   2: 0.9, or a later one set to such a level
                   3 and more: 0.10 and later, or zkbroker, which names its level

Brokers do not negotiate: the level of the sender fixes the version of each request. This broker
reads requests of levels 2.1 to 2.3 at any own level; between 0.8.2 and later levels fields are
lost that the other side needs. Genuine brokers do not refuse such a cluster either: it exists for a
while whenever the level is raised one broker at a time. Hence only a warning.

Invariant: each peer is logged once, until it leaves or registers with another level.
"""

import logging
from collections.abc import Mapping

from zkbroker.config.levels import LEVELS
from zkbroker.registry.brokers import BrokerInfo

logger = logging.getLogger(__name__)

OLD = LEVELS[0]
_LEVELS_SINCE = 3
"""The registration version from which on no genuine broker has a level such as 0.8.2."""


class PeerLevels:
    """Compares `inter.broker.protocol.version` with what other brokers registered."""

    def __init__(self, broker_id: int, level: str) -> None:
        self._broker_id = broker_id
        self._level = level
        self._warned_of: set[int] = set()

    def look(self, brokers: Mapping[int, BrokerInfo]) -> None:
        """Warn of registered brokers whose level is incompatible with this broker's."""
        others = {
            number
            for number, info in brokers.items()
            if number != self._broker_id and _is_old(info) != (self._level == OLD)
        }
        fresh = sorted(others - self._warned_of)
        self._warned_of = others
        if not fresh:
            return
        if self._level == OLD:
            logger.warning(
                "inter.broker.protocol.version=%s here, but brokers %s have a later one: messages "
                "copied from them to this broker lose timestamps, headers and producer ids. Set "
                "inter.broker.protocol.version to their release (%s), and "
                "log.message.format.version likewise, at every broker of the cluster",
                self._level,
                fresh,
                ", ".join(LEVELS[1:]),
            )
        else:
            logger.warning(
                "inter.broker.protocol.version=%s here, but brokers %s have %s: they cannot read "
                "requests of a controller or follower with a later level. Set "
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
