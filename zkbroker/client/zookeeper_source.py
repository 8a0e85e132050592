"""ZooKeeper as the source: registrations and topics are read and watched there.

    /brokers/ids                          a broker joins, leaves, or comes back elsewhere
    /brokers/topics                       a topic appears
    /brokers/topics/[topic]               partitions are added
    /brokers/topics/[topic]/…/[n]/state   a partition gets or loses its leader

Invariants: every node that a view was read from carries a watch when `read` returns, so no change
after it is missed; a watch only sets an event. A reading takes the same few round trips for one
topic and for thousands.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from zkbroker.client.any_broker import AnyBroker
from zkbroker.client.view import (
    NO_EPOCH,
    BrokerAddress,
    NoBrokersAvailable,
    PartitionInfo,
    Partitions,
    View,
)
from zkbroker.config.security import PLAINTEXT
from zkbroker.config.zookeeper_security import UNPROTECTED, ZooKeeperSecurity
from zkbroker.errors import ErrorCode, ProtocolError, RegistryError, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo, list_brokers
from zkbroker.registry.partitions import PartitionState
from zkbroker.registry.topics import decode_assignment, list_topics
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import SessionState, ZkSession
from zkbroker.zookeeper.nodes import NodeStat, Settable

logger = logging.getLogger(__name__)

NO_LEADER = -1
_UNKNOWN = PartitionState(NO_LEADER, NO_EPOCH, ())


class ZooKeeperSource:
    """Finds the cluster through ZooKeeper.

    Args:
        connect: `host:port,host:port/chroot`.
        session: a started session to use instead; it is not closed here.
        session_timeout_ms: of the session made here.
        connect_timeout_ms: how long `start` waits for ZooKeeper.
        security: of the session made here.

    Attributes:
        runtime: of the session made here; the cluster sets its own, as the next.
        protocol: security protocol of the listeners to use.
    """

    def __init__(
        self,
        connect: str = "",
        *,
        session: ZkSession | None = None,
        session_timeout_ms: int = 6_000,
        connect_timeout_ms: int = 6_000,
        security: ZooKeeperSecurity = UNPROTECTED,
    ) -> None:
        self.protocol = PLAINTEXT
        self._security = security
        if bool(connect) == (session is not None):
            raise RegistryError("give a ZooKeeper address or a session, and not both")
        self._connect = connect
        self._session_timeout_ms = session_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self.runtime: Runtime | None = None
        self._own: ZkSession | None = None
        self._given = session
        self._changed: Settable | None = None
        self._unsubscribe: Callable[[], object] = lambda: None

    @property
    def session(self) -> ZkSession:
        """The session that it reads with."""
        session = self._given or self._own
        assert session is not None
        return session

    def start(self, brokers: AnyBroker, changed: Settable) -> None:
        self._changed = changed
        if self._given is None:
            assert self.runtime is not None
            own = ZkSession(
                self._connect,
                session_timeout_ms=self._session_timeout_ms,
                connect_timeout_ms=self._connect_timeout_ms,
                runtime=self.runtime,
                security=self._security,
            )
            own.start()
            self._own = own

        def on_state(state: SessionState) -> None:
            # A new session has no watches; after any interruption the view may be old.
            if state is SessionState.CONNECTED:
                changed.set()

        self._unsubscribe = self.session.on_state(on_state)

    def read(self, topics: Collection[str]) -> View:
        session, changed = self.session, self._changed
        assert changed is not None
        brokers = self._addresses(list_brokers(session, changed).values())
        existing = set(list_topics(session, changed))
        found: dict[str, Partitions | ProtocolError] = {
            topic: protocol_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} does not exist"
            )
            for topic in topics
        }
        assigned: dict[str, Mapping[int, Sequence[int]]] = {}
        listed = [topic for topic in topics if topic in existing]
        nodes = session.get_many([paths.topic(topic) for topic in listed], [changed] * len(listed))
        for topic, node in zip(listed, nodes, strict=True):
            if node is None:
                continue
            try:
                assigned[topic] = decode_assignment(topic, node[0])
            except RegistryError as error:
                logger.warning("topic unreadable topic=%s error=%s", topic, error)
                found[topic] = protocol_error(ErrorCode.LEADER_NOT_AVAILABLE, str(error))
        keys = [(topic, number) for topic in assigned for number in sorted(assigned[topic])]
        partitions: dict[str, list[PartitionInfo]] = {topic: [] for topic in assigned}
        for (topic, number), state in zip(keys, self._states(keys), strict=True):
            alive = state.leader if state.leader in brokers else None
            replicas = tuple(assigned[topic][number])
            partitions[topic].append(
                PartitionInfo(topic, number, alive, state.leader_epoch, replicas, state.isr)
            )
        found.update((topic, tuple(infos)) for topic, infos in partitions.items())
        return View(brokers, found)

    def _addresses(self, registered: Collection[BrokerInfo]) -> dict[int, BrokerAddress]:
        """Return the addresses of brokers, without those that have no listener of our protocol."""
        found = {}
        for broker in registered:
            endpoint = broker.endpoint_of(self.protocol)
            if endpoint is not None:
                found[broker.id] = BrokerAddress(broker.id, *endpoint, broker.rack)
        if registered and not found:
            spoken = sorted({name for broker in registered for name in broker.protocols_spoken})
            raise NoBrokersAvailable(
                f"no broker has a listener of security.protocol={self.protocol}; they have "
                f"{', '.join(spoken)}: set one of these"
            )
        return found

    def _states(self, keys: Sequence[PartitionKey]) -> list[PartitionState]:
        """Return the stored partitions, all read in one flight."""
        session, changed = self.session, self._changed
        assert changed is not None
        nodes = [paths.partition_state(*key) for key in keys]
        states = dict(zip(nodes, session.get_many(nodes, [changed] * len(nodes)), strict=True))
        missing = [path for path, node in states.items() if node is None]
        found = session.exists_many(missing, [changed] * len(missing))
        # Nodes created between the two reads are read again: their watch does not fire for it.
        come = [path for path, stat in zip(missing, found, strict=True) if stat is not None]
        states.update(zip(come, session.get_many(come, [changed] * len(come)), strict=True))
        # Without the leader's registration, the decision still holds the ISR.
        away = [key for key, node in zip(keys, states.values(), strict=True) if node is None]
        decided = dict(
            zip(away, session.get_many([paths.partition(*key) for key in away]), strict=True)
        )
        return [
            _state(path, decided.get(key) if node is None else node, led=node is not None)
            for key, (path, node) in zip(keys, states.items(), strict=True)
        ]

    def all_topics(self) -> list[str] | None:
        return list_topics(self.session)

    def only_connection(self) -> BrokerConnection | None:
        return None

    def close(self) -> None:
        self._unsubscribe()
        if self._own is not None:
            self._own.close()


def _state(path: str, node: tuple[bytes, NodeStat] | None, *, led: bool) -> PartitionState:
    """Decode a node; without `led` the leader that it names is not registered."""
    if node is None or not node[0]:
        return _UNKNOWN
    try:
        state = PartitionState.from_json(node[0])
    except RegistryError as error:
        logger.warning("partition state unreadable path=%s error=%s", path, error)
        return _UNKNOWN
    return state if led else PartitionState(NO_LEADER, NO_EPOCH, state.isr)
