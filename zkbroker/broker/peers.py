"""Learns new leaders from other brokers while this one cannot reach ZooKeeper.

    session over by this broker's clock --> ask the brokers last seen, one a second, in turn
      --> leaders with a higher epoch than the known one --> the view

A broker that loses only ZooKeeper is replaced as leader, and gets no more requests from the
controller. Clients that ask only this broker for leaders would return to it as long as it is cut
off.

Invariant: a peer's answer counts only if its leader epoch is higher than the known one, so that a
peer that is also cut off changes nothing. No peer is asked while the session may be alive.
"""

import logging
from collections.abc import Callable, Iterator

from zkbroker.broker.dialing import Line
from zkbroker.broker.view import ClusterView
from zkbroker.errors import NetworkError, ProtocolError, RequestTimedOut
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.runtime import OwnerLoop, Runtime

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
TOPICS_AT_ONCE = 200
METADATA_VERSION = 7
"""The first version of Metadata with leader epochs."""


class PeerKnowledge:
    """Learns new leaders from other brokers.

    Args:
        view: this broker's view of the cluster.
        session_over: returns whether ZooKeeper must have ended this broker's session.
        connect: makes a connection to a broker, which is opened at its first use.
        runtime: for the task.
    """

    def __init__(
        self,
        view: ClusterView,
        session_over: Callable[[], bool],
        connect: Callable[[BrokerInfo], Line],
        *,
        runtime: Runtime,
    ) -> None:
        self._view = view
        self._session_over = session_over
        self._connect = connect
        self._asked = view.own.id
        self._loop = OwnerLoop(
            runtime,
            self._step,
            name="asking other brokers",
            logger=logger,
            retry_s=INTERVAL_S,
            foreseen=(ProtocolError,),
        )

    def start(self) -> None:
        self._loop.start(INTERVAL_S)

    def close(self, timeout_s: float) -> bool:
        """End the task; False when that takes longer than `timeout_s`."""
        return self._loop.close(timeout_s)

    def _step(self) -> float:
        if self._session_over():
            self.ask()
        return INTERVAL_S

    def ask(self) -> int:
        """Ask the next broker; returns for how many partitions it knew a newer leader.

        Raises:
            ProtocolError: the answer cannot be read.
        """
        peer = self._next()
        if peer is None:
            return 0
        line = self._connect(peer)
        learned = 0
        try:
            for topics in self._replicated():
                for topic in line.send(MetadataRequest(topics, False), METADATA_VERSION).topics:
                    for each in topic.partitions:
                        learned += self._view.learn(topic.topic, each)
        except (NetworkError, RequestTimedOut) as error:
            # This broker may be down; the next step asks another one.
            logger.debug("no answer broker=%d error=%s", peer.id, error)
        finally:
            line.close()
        if learned:
            logger.info("newer leaders learned from broker=%d partitions=%d", peer.id, learned)
            self._view.notify()
        return learned

    def _next(self) -> BrokerInfo | None:
        """Return the next broker to ask, None if there is no other."""
        ids = sorted(each for each in self._view.brokers if each != self._view.own.id)
        if not ids:
            return None
        self._asked = next((each for each in ids if each > self._asked), ids[0])
        return self._view.brokers[self._asked]

    def _replicated(self) -> Iterator[list[str]]:
        """Yield, in parts, the topics that another broker may lead by now."""
        topics = [
            topic
            for topic, assignment in self._view.topics.assignments.items()
            if any(len(replicas) > 1 for replicas in assignment.values())
        ]
        for first in range(0, len(topics), TOPICS_AT_ONCE):
            yield topics[first : first + TOPICS_AT_ONCE]
