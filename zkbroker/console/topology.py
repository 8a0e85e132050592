"""Brokers, topics and the controller, from Metadata and the registry.

    every time    registered brokers and the controller: from ZooKeeper, or by a Metadata request
                  without topics
    now and then  all topics, by one Metadata request; at once if brokers changed

Invariant: a topic that Metadata no longer names is dropped, with all of its state.
"""

import contextlib

from zkbroker.admin.topics import PartitionDescription, TopicDescription
from zkbroker.client import Cluster
from zkbroker.client.metadata_source import ask
from zkbroker.client.topic_settings import MIN_ISR, topic_settings
from zkbroker.console.cluster_state import BrokerListener, ClusterState, SeenBroker
from zkbroker.console.pace import QuestionPace
from zkbroker.console.sampling import Look
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import MetadataResponse
from zkbroker.registry import paths
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.cluster_id import read_cluster_id
from zkbroker.registry.controller_election import current_controller
from zkbroker.registry.topics import decode_config, topics_to_delete
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import paced
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import NoNode

_SETTINGS_EVERY_S = 60
_MIN_ISR_EVERY_MS = 600_000
_MIN_ISR_AT_ONCE = 200


class Topology:
    """Reads brokers and topics into `seen`; all topics every `every_s` seconds at most."""

    def __init__(self, seen: ClusterState, runtime: Runtime, every_s: float) -> None:
        self._seen = seen
        self._runtime = runtime
        self._all = QuestionPace(every_s)
        self._settings = QuestionPace(_SETTINGS_EVERY_S)
        self._min_isr_ms: dict[str, int] = {}
        self._deleted: frozenset[str] = frozenset()
        self._notes = _IsrNotes(self._all)

    def hurry(self) -> None:
        """Read all topics at the next reading."""
        self._all.hurry()
        self._settings.hurry()

    def look(self, cluster: Cluster, session: ZkSession | None, now_ms: int) -> None:
        """Read what is due.

        Args:
            cluster: the brokers, as they are known.
            session: to a ZooKeeper that answers; if None, brokers are asked for everything.
            now_ms: the time.

        Raises:
            ZkbrokerError: neither ZooKeeper nor a broker answers.
        """
        before = self._seen.alive
        if session is not None:
            self._registered(session)
        else:
            answer = cluster.ask_any(
                lambda connection, wait_s: ask(connection, [], timeout_s=wait_s)
            )
            self._brokers_of(answer)
        if self._seen.alive != before:
            self._all.hurry()
        if not self._all.due(now_ms):
            return
        begun_ms = self._runtime.clock_ms()
        answer = cluster.ask_any(lambda connection, wait_s: ask(connection, None, timeout_s=wait_s))
        self._all.done(now_ms, self._runtime.clock_ms() - begun_ms)
        if session is None:
            self._brokers_of(answer)
        elif answer.cluster_id is not None:
            self._seen.cluster_id = answer.cluster_id
        self._topics_of(answer)
        if session is not None and self._settings.due(now_ms):
            begun_ms = self._runtime.clock_ms()
            self._own_settings(session)
            self._settings.done(now_ms, self._runtime.clock_ms() - begun_ms)
        self._min_isr(cluster, now_ms)

    def _registered(self, session: ZkSession) -> None:
        seen = self._seen
        found = list_brokers(session)
        for each in found.values():
            seen.brokers[each.id] = SeenBroker(
                each.id,
                each.host,
                each.port,
                each.rack,
                tuple(BrokerListener(name, *where) for name, where in each.listeners.items()),
                each.timestamp_ms or None,
            )
        seen.alive = frozenset(found)
        seen.controller = current_controller(session)
        if seen.cluster_id is None:
            seen.cluster_id = read_cluster_id(session)
        self._deleted = frozenset(topics_to_delete(session))
        self._notes.watch(session)

    def _brokers_of(self, answer: MetadataResponse) -> None:
        seen = self._seen
        for each in answer.brokers:
            seen.brokers[each.node_id] = SeenBroker(each.node_id, each.host, each.port, each.rack)
        seen.alive = frozenset(each.node_id for each in answer.brokers)
        # Brokers before 0.10 do not name it.
        seen.controller = answer.controller_id if answer.controller_id >= 0 else None
        if answer.cluster_id is not None:
            seen.cluster_id = answer.cluster_id

    def _topics_of(self, answer: MetadataResponse) -> None:
        seen, live = self._seen, self._seen.alive
        topics: dict[str, TopicDescription] = {}
        epochs: dict[PartitionKey, int] = {}
        looks: dict[PartitionKey, Look] = {}
        for topic in paced(self._runtime, answer.topics, 100):
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                continue
            described = []
            for each in sorted(topic.partitions, key=lambda each: each.partition):
                key = (topic.topic, each.partition)
                leader = each.leader if each.leader >= 0 else None
                isr = tuple(each.isr)
                available = leader in live
                described.append(
                    PartitionDescription(
                        each.partition, leader, tuple(each.replicas), isr, available
                    )
                )
                epochs[key] = each.leader_epoch
                looks[key] = seen.looks.get(key) or Look()
            topics[topic.topic] = TopicDescription(
                topic.topic, {}, tuple(described), topic.topic in self._deleted
            )
        if topics.keys() != seen.topics.keys():
            self._settings.hurry()
        seen.topics = dict(sorted(topics.items()))
        seen.epochs = epochs
        seen.looks = looks
        internal = {each.topic for each in answer.topics if each.is_internal}
        seen.internal = frozenset(internal | {name for name in topics if name.startswith("__")})
        seen.sizes = {key: size for key, size in seen.sizes.items() if key in looks}
        seen.min_isr = {name: few for name, few in seen.min_isr.items() if name in topics}
        self._min_isr_ms = {name: at for name, at in self._min_isr_ms.items() if name in topics}

    def _own_settings(self, session: ZkSession) -> None:
        names = list(self._seen.topics)
        nodes = session.get_many([paths.topic_config(name) for name in names])
        self._seen.settings = {
            name: {} if node is None else decode_config(name, node[0])
            for name, node in zip(names, nodes, strict=True)
        }

    def _min_isr(self, cluster: Cluster, now_ms: int) -> None:
        due = [
            name
            for name in self._seen.topics
            if now_ms - self._min_isr_ms.get(name, -_MIN_ISR_EVERY_MS) >= _MIN_ISR_EVERY_MS
        ][:_MIN_ISR_AT_ONCE]
        if not due:
            return

        def question(connection: BrokerConnection, wait_s: float) -> dict[str, int]:
            found = topic_settings(connection, due, [MIN_ISR], wait_s)
            return {name: int(said[MIN_ISR]) for name, said in found.items() if MIN_ISR in said}

        failed = []
        try:
            self._seen.min_isr |= cluster.ask_any(question)
        except ZkbrokerError as error:
            failed.append(str(error))
        self._seen.note_trouble("settings", failed, "settings of topics cannot be read")
        self._min_isr_ms |= dict.fromkeys(due, now_ms)


class _IsrNotes:
    """Watches the notifications of brokers about changed ISRs, which hurry a pace."""

    def __init__(self, pace: QuestionPace) -> None:
        self._pace = pace
        self._watched = False

    def set(self) -> None:
        """Handle a watch that fired, or a session that lost its watches."""
        self._watched = False
        self._pace.hurry()

    def watch(self, session: ZkSession) -> None:
        """Set the watch, unless one is set."""
        if not self._watched:
            # Brokers before 0.9 write none.
            with contextlib.suppress(NoNode):
                session.children(paths.ISR_CHANGES, self)
                self._watched = True
