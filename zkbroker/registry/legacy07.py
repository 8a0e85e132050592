"""The registry of Kafka 0.7, in a chroot of its own.

    /brokers/ids/N          E  creator:host:port, the creator host-ms
    /brokers/topics/T/N     E  how many partitions of topic T broker N has

Nodes hold plain text; their parents are persistent and empty. There is no leader, no replication
and no topic setting: the partitions of a broker vanish with it.

Invariant: while the session lives, its nodes exist. If a node of another session is in the way, the
broker waits until it is gone; a genuine 0.7 broker fails even at a node of its own last run.
"""

import logging
import time
from collections.abc import Callable, Mapping

from zkbroker.errors import RegistryError
from zkbroker.runtime import OwnerLoop
from zkbroker.types import Partition07
from zkbroker.zookeeper.errors import BrokerIdInUse, NodeExists, NoNode
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import SessionState, ZkSession

logger = logging.getLogger(__name__)

BROKER_IDS = "/brokers/ids"
BROKER_TOPICS = "/brokers/topics"
CONSUMERS = "/consumers"


def broker_path(broker_id: int) -> str:
    """Return the path of a broker's node."""
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str, broker_id: int) -> str:
    """Return the path of the node that says how many partitions of a topic a broker has."""
    return f"{BROKER_TOPICS}/{topic}/{broker_id}"


def parse_broker(data: bytes) -> tuple[str, int]:
    """Return the host and port in a broker's node.

    Raises:
        RegistryError: the data is not in the form of 0.7.
    """
    parts = data.decode("utf-8", "replace").split(":")
    if len(parts) != 3 or not parts[2].isdecimal():
        raise RegistryError(f"{data!r} is no broker's registration of Kafka 0.7")
    return parts[1], int(parts[2])


def brokers(session: ZkSession, watch: Settable | None = None) -> dict[int, tuple[str, int]]:
    """Return host and port of every live broker.

    Raises:
        RegistryError: ZooKeeper does not answer, or a node is not in the form of 0.7.
    """
    found: dict[int, tuple[str, int]] = {}
    try:
        ids = [int(name) for name in _children(session, BROKER_IDS, watch)]
    except ValueError as error:
        raise RegistryError(f"{BROKER_IDS} is not that of Kafka 0.7: {error}") from error
    for broker_id, node in zip(ids, session.get_many([broker_path(i) for i in ids]), strict=True):
        if node is not None:
            found[broker_id] = parse_broker(node[0])
    return found


def topics(session: ZkSession, watch: Settable | None = None) -> list[str]:
    """Return the names of all topics that have a node, sorted.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """
    return sorted(_children(session, BROKER_TOPICS, watch))


def partitions(session: ZkSession, topic: str, watch: Settable | None = None) -> list[Partition07]:
    """Return the partitions of a topic on the live brokers, in numeric order.

    Raises:
        RegistryError: ZooKeeper does not answer, or a node is not in the form of 0.7.
    """
    path = f"{BROKER_TOPICS}/{topic}"
    names = _children(session, path, watch)
    nodes = session.get_many(
        [f"{path}/{name}" for name in names], None if watch is None else [watch] * len(names)
    )
    read = zip(names, nodes, strict=True)
    try:
        counts = {int(name): int(node[0]) for name, node in read if node is not None}
    except ValueError as error:
        raise RegistryError(f"{path} is not that of Kafka 0.7: {error}") from error
    try:
        return [
            Partition07(broker, number)
            for broker, count in sorted(counts.items())
            for number in range(count)
        ]
    except ValueError as error:
        raise RegistryError(f"{path}: {error}") from error


def _children(session: ZkSession, path: str, watch: Settable | None) -> list[str]:
    """Return the children of a path, none if it is missing; the watch also sees its creation."""
    while True:
        try:
            return session.children(path, watch)
        except NoNode:
            if watch is None or session.exists(path, watch) is None:
                return []


class Registration07:
    """Keeps a broker and its topics registered.

    Args:
        session: a started session under the registry's chroot.
        broker_id: the broker's id.
        host: the host that clients connect to; not an IPv6 address.
        port: the port that clients connect to.
        topics: returns the number of partitions by topic, of every topic with a log.
        now_ms: wall clock in milliseconds.
    """

    def __init__(
        self,
        session: ZkSession,
        broker_id: int,
        host: str,
        port: int,
        topics: Callable[[], Mapping[str, int]],
        now_ms: Callable[[], int],
    ) -> None:
        self._session = session
        self._broker_id = broker_id
        self._data = f"{host}-{now_ms()}:{host}:{port}".encode()
        self._topics = topics
        self._known: dict[str, int] = {}
        self._known_in = 0
        self._loop = OwnerLoop(
            session.runtime,
            self._step,
            name="legacy07-registration",
            logger=logger,
            foreseen=(RegistryError,),
            ready=session.wait_connected,
            ended=lambda: session.closed,
        )
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Register the broker and its topics, and keep them registered.

        Raises:
            BrokerIdInUse: another session holds the id for longer than a session time-out.
            RegistryError: ZooKeeper does not answer.
        """
        for path in (BROKER_IDS, BROKER_TOPICS, CONSUMERS):
            self._session.ensure_path(path)
        self._register_broker()
        self._step()
        self._unsubscribe = self._session.on_state(self._state_changed)
        self._loop.start()

    def topic_made(self, topic: str) -> None:
        """Let the registration's task register a new topic; does not wait."""
        self._loop.set()

    def close(self) -> None:
        """Deregister."""
        self._unsubscribe()
        self._loop.close()
        if self._session.state is SessionState.CONNECTED:
            nodes = [topic_path(topic, self._broker_id) for topic in self._known]
            for path in (*nodes, broker_path(self._broker_id)):
                try:
                    self._session.delete(path, missing_ok=True)
                except RegistryError as error:
                    # The node ends with the session anyway.
                    logger.debug("0.7 node not removed path=%s error=%s", path, error)

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._loop.set()

    def _register_broker(self) -> None:
        path = broker_path(self._broker_id)
        deadline = time.monotonic() + self._session.session_timeout_ms * 1.5 / 1000 + 1
        while not self._own(path, self._data):
            if time.monotonic() > deadline:
                raise BrokerIdInUse(
                    f"broker id {self._broker_id} is in use in the 0.7 registry "
                    f"{self._session.chroot or '/'}: stop that broker, or set another "
                    "legacy07.broker.id"
                )
            self._session.runtime.sleep(0.2)
        logger.info("0.7 broker registered id=%d node=%s", self._broker_id, self._data.decode())

    def _step(self) -> None:
        session_id = self._session.session_id
        if session_id != self._known_in:
            self._known.clear()
        self._must_own(broker_path(self._broker_id), self._data)
        topics = self._topics()
        for topic, partitions in topics.items():
            if self._known.get(topic) != partitions:
                if topic in self._known:
                    # Consumers watch only the children: a changed number needs a new child.
                    self._session.delete(topic_path(topic, self._broker_id), missing_ok=True)
                self._session.ensure_path(f"{BROKER_TOPICS}/{topic}")
                self._must_own(topic_path(topic, self._broker_id), str(partitions).encode())
                self._known[topic] = partitions
        for topic in self._known.keys() - topics.keys():
            self._session.delete(topic_path(topic, self._broker_id), missing_ok=True)
            del self._known[topic]
        self._known_in = session_id
        # The watch fires when the node is removed.
        self._session.exists(broker_path(self._broker_id), self._loop)

    def _must_own(self, path: str, data: bytes) -> None:
        if not self._own(path, data):
            raise RegistryError(f"{path} belongs to another session: waiting until it is removed")

    def _own(self, path: str, data: bytes) -> bool:
        """Create a node in our session; False while it belongs to another session."""
        try:
            self._session.create(path, data, ephemeral=True, parents=True)
        except NodeExists:
            stat = self._session.exists(path)
            if stat is None or stat.ephemeral_owner != self._session.session_id:
                return False
        return True
