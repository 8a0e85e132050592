"""How many replicas of a topic have to be in sync, where the topic does not say it itself.

The default stands in the brokers' own settings, which ZooKeeper does not know: a broker is asked.
"""

import logging
from collections.abc import Iterable

from zkbroker.client.topic_settings import MIN_ISR, topic_settings
from zkbroker.errors import ZkbrokerError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.registry.brokers import list_brokers
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession

__all__ = ["MIN_ISR", "effective_min_isr"]

logger = logging.getLogger(__name__)

ANSWER_MS = 5_000


def effective_min_isr(
    session: ZkSession, topics: Iterable[str], *, timeout_ms: int = ANSWER_MS
) -> dict[str, int]:
    """Return `min.insync.replicas` of topics, with the brokers' default where they do not say.

    Args:
        session: a started session.
        topics: which.
        timeout_ms: how long each broker may take to connect, and to answer.

    Returns:
        topic → replicas; empty when no broker can be asked (those before 0.11 cannot).
    """
    wanted = sorted(topics)
    for broker in list_brokers(session).values() if wanted else ():
        try:
            with BrokerConnection(
                get_runtime("threads"),
                broker.host,
                broker.port,
                connect_timeout_ms=timeout_ms,
                request_timeout_ms=timeout_ms,
            ) as connection:
                found = topic_settings(connection, wanted, [MIN_ISR])
                return {name: int(said[MIN_ISR]) for name, said in found.items() if said}
        except ZkbrokerError as error:
            logger.info("settings not described broker=%d error=%s", broker.id, error)
    return {}
