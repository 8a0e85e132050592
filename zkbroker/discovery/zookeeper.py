"""ZooKeeper as the source: registrations and topics are read there and watched.

    /brokers/ids                          a broker joins, leaves, or comes back elsewhere
    /brokers/topics                       a topic appears
    /brokers/topics/[topic]               partitions are added
    /brokers/topics/[topic]/…/[n]/state   a broker takes up or gives up a partition

Invariant: every node that a view was read from carries a watch when `read` returns, so no change
after it is missed; a watch only sets an event.
"""

import logging
from collections.abc import Callable, Collection, Sequence

from zkbroker.discovery.view import (
    BrokerAddress,
    Connector,
    PartitionInfo,
    Partitions,
    View,
)
from zkbroker.errors import ErrorCode, ProtocolError, RegistryError, protocol_error
from zkbroker.network import BrokerConnection
from zkbroker.registry import SessionState, ZkSession, paths
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.partitions import PartitionState
from zkbroker.registry.topics import assignment, list_topics
from zkbroker.runtime import Event, Runtime

logger = logging.getLogger(__name__)


class ZooKeeperSource:
    """Finds the cluster through ZooKeeper.

    Args:
        connect: `host:port,host:port/chroot`.
        session: a started session to use instead; it is not closed here.
        session_timeout_ms: of the session made here.
        connect_timeout_ms: how long `start` waits for ZooKeeper.
        runtime: of the session made here; the cluster passes its own when None.
    """

    def __init__(
        self,
        connect: str = "",
        *,
        session: ZkSession | None = None,
        session_timeout_ms: int = 6_000,
        connect_timeout_ms: int = 6_000,
        runtime: Runtime | None = None,
    ) -> None:
        if bool(connect) == (session is not None):
            raise RegistryError("give a ZooKeeper address or a session, and not both")
        self._connect = connect
        self._session_timeout_ms = session_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self.runtime = runtime
        self._own: ZkSession | None = None
        self._given = session
        self._changed: Event | None = None
        self._unsubscribe: Callable[[], object] = lambda: None

    @property
    def _session(self) -> ZkSession:
        session = self._given or self._own
        assert session is not None
        return session

    def start(self, connector: Connector, changed: Event) -> None:
        self._changed = changed
        if self._given is None:
            assert self.runtime is not None
            own = ZkSession(
                self._connect,
                session_timeout_ms=self._session_timeout_ms,
                connect_timeout_ms=self._connect_timeout_ms,
                runtime=self.runtime,
            )
            own.start()
            self._own = own

        def on_state(state: SessionState) -> None:
            # A new session has no watches; after any silence what was read may be old.
            if state is SessionState.CONNECTED:
                changed.set()

        self._unsubscribe = self._session.on_state(on_state)

    def read(self, topics: Collection[str]) -> View:
        session, changed = self._session, self._changed
        brokers = {
            broker.id: BrokerAddress(broker.id, broker.host, broker.port, broker.rack)
            for broker in list_brokers(session, changed).values()
        }
        existing = set(list_topics(session, changed))
        found: dict[str, Partitions | ProtocolError] = {}
        for topic in topics:
            numbers = None
            if topic in existing:
                try:
                    numbers = assignment(session, topic, changed)
                except RegistryError as error:
                    logger.warning("topic unreadable topic=%s error=%s", topic, error)
                    found[topic] = protocol_error(ErrorCode.LEADER_NOT_AVAILABLE, str(error))
                    continue
            if numbers is None:
                found[topic] = protocol_error(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist"
                )
                continue
            leaders = self._leaders(topic, sorted(numbers))
            found[topic] = tuple(
                PartitionInfo(topic, number, leader if leader in brokers else None)
                for number, leader in zip(sorted(numbers), leaders, strict=True)
            )
        return View(brokers, found)

    def _leaders(self, topic: str, numbers: Sequence[int]) -> list[int | None]:
        session, changed = self._session, self._changed
        assert changed is not None
        nodes = [paths.partition_state(topic, number) for number in numbers]
        leaders: list[int | None] = []
        for path, node in zip(nodes, session.get_many(nodes, [changed] * len(nodes)), strict=True):
            if node is None and session.exists(path, changed) is not None:
                # It came between the two reads; the watch would not fire for that.
                node = session.get_many([path], [changed])[0]
            if node is None:
                leaders.append(None)
                continue
            try:
                state = PartitionState.from_json(node[0])
            except RegistryError as error:
                logger.warning("partition state unreadable path=%s error=%s", path, error)
                leaders.append(None)
            else:
                leaders.append(state.leader)
        return leaders

    def all_topics(self) -> list[str] | None:
        return list_topics(self._session)

    def only_connection(self) -> BrokerConnection | None:
        return None

    def close(self) -> None:
        self._unsubscribe()
        if self._own is not None:
            self._own.close()
