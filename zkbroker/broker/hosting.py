"""Which partitions this broker hosts, and the task that keeps that as ZooKeeper says.

    assigned (first replica is this broker) --> log opened --> registered --> hosted (served)
    hosted --> topic deleted or gone --> not served --> log deleted
    hosted --> assigned to another broker --> not served; the log is kept
    log cannot be opened --> not served, tried again; the others are served

Invariants: one task changes what is hosted; it works on the newest view only, and tries again when
ZooKeeper fails. A partition stays served while ZooKeeper is away, since nobody else can host it:
its log is locked here. A log is deleted only when its topic's deletion was asked for, or when the
topic was seen here before and its node is certainly gone; never because ZooKeeper shows an empty
tree. Others tell clients of a leader once it stands in ZooKeeper, a moment before the leader itself
has its answer: a request that comes in between waits for that answer.
"""

import logging
import time
from collections.abc import Callable, Mapping

import gevent
import gevent.event

from zkbroker.broker.metrics import BrokerMetrics, TopicMetrics
from zkbroker.broker.view import ClusterView
from zkbroker.errors import ConfigError, RegistryError, StorageError
from zkbroker.log import Log, LogManager, TopicPartition
from zkbroker.registry import SessionState, ZkSession
from zkbroker.registry.controller import controller_epoch
from zkbroker.registry.partitions import register_partitions, unregister_partition
from zkbroker.registry.topics import assignment as read_assignment
from zkbroker.registry.topics_watch import TopicsView

logger = logging.getLogger(__name__)

RETRY_S = 0.5
REOPEN_S = 10.0
REGISTERING_S = 1.0
Key = tuple[str, int]


class Hosted:
    """A partition that is served here, and who waits for data in it."""

    __slots__ = ("leader_epoch", "log", "metrics", "number", "topic", "waiters")

    def __init__(self, key: Key, log: Log, leader_epoch: int, metrics: TopicMetrics) -> None:
        self.topic, self.number = key
        self.log = log
        self.leader_epoch = leader_epoch
        self.metrics = metrics
        self.waiters: set[gevent.event.Event] = set()

    def wake(self) -> None:
        """Have everybody who waits look again."""
        for waiter in self.waiters:
            waiter.set()


class Hosting:
    """The partitions hosted by this broker.

    Args:
        broker_id: this broker.
        logs: the started log manager.
        session: a started ZooKeeper session.
        view: the cluster; topics are taken from it.
        metrics: where the topics' counts are.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        session: ZkSession,
        view: ClusterView,
        metrics: BrokerMetrics,
    ) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._session = session
        self._view = view
        self._metrics = metrics
        self._hosted: dict[Key, Hosted] = {}
        self._opened: dict[Key, Log] = {}
        self._unopened: dict[Key, str] = {}
        self._registered: dict[Key, int] = {}
        self._being_registered: frozenset[Key] = frozenset()
        self._registering_until = 0.0
        self._answered = gevent.event.Event()
        self._configs: dict[str, Mapping[str, str]] = {}
        self._changed = gevent.event.Event()
        self._settled = gevent.event.Event()
        self._registering = False
        self._stopping = False
        self._task: gevent.Greenlet | None = None
        self._subscribers: dict[
            str, tuple[Callable[[int, Log], object], Callable[[int], object]]
        ] = {}
        view.set_own_leadership(self.leader_epoch)

    def get(self, topic: str, number: int) -> Hosted | None:
        """Return a hosted partition, None when it is not served here."""
        return self._hosted.get((topic, number))

    def get_soon(self, topic: str, number: int) -> Hosted | None:
        """Return a hosted partition, and wait for one whose registration is under way.

        Nobody waits for longer than `REGISTERING_S` from when that was begun.
        """
        key = (topic, number)
        if key not in self._hosted and key in self._being_registered:
            self._answered.wait(max(0.0, self._registering_until - time.monotonic()))
        return self._hosted.get(key)

    def all(self) -> list[Hosted]:
        """Return every hosted partition."""
        return list(self._hosted.values())

    def leader_epoch(self, topic: str, number: int) -> int | None:
        """Return the epoch of a partition's leadership here, None when it is not served here."""
        hosted = self._hosted.get((topic, number))
        return None if hosted is None else hosted.leader_epoch

    def subscribe(
        self,
        topic: str,
        on_hosted: Callable[[int, Log], object],
        on_unhosted: Callable[[int], object],
    ) -> None:
        """Call back, in the hosting task, when partitions of a topic come and go.

        Partitions hosted already are reported at once.
        """
        self._subscribers[topic] = (on_hosted, on_unhosted)
        for hosted in self.all():
            if hosted.topic == topic:
                on_hosted(hosted.number, hosted.log)

    def open_assigned(self) -> None:
        """Open the logs of all assigned partitions; nothing is registered or served yet.

        What was deleted while this broker was away is dropped before the controller sees it: the
        topic's nodes may be gone a moment after.
        """
        self._drop_deleted(self._view.topics)
        self._open(self._view.topics)

    def start(self) -> None:
        """Begin to register and serve. The broker itself must be registered."""
        self._registering = True
        self._task = gevent.spawn(self._run)
        self._changed.set()

    def wait_settled(self, timeout_s: float) -> bool:
        """Wait until everything seen so far is served."""
        return bool(self._settled.wait(timeout_s))

    def poke(self) -> None:
        """Look at the view again: it changed, or the broker was registered anew."""
        self._settled.clear()
        self._changed.set()

    def stop(self) -> None:
        """Stop serving: deregister every partition and let whoever waits for data go."""
        self._stopping = True
        self._changed.set()
        if self._task is not None:
            self._task.join()
        for hosted in self.all():
            hosted.wake()
        if self._session.state is SessionState.CONNECTED:
            try:
                for key in self._registered:
                    unregister_partition(self._session, *key)
            except RegistryError as error:
                logger.warning("partitions not deregistered error=%s", error)
        self._registered.clear()

    def _run(self) -> None:
        while not self._stopping:
            self._changed.wait(REOPEN_S if self._unopened else None)
            self._changed.clear()
            if self._stopping:
                return
            try:
                self._reconcile()
            except Exception as error:
                # This task must not end: nothing else would be hosted any more.
                foreseen = isinstance(error, RegistryError | StorageError)
                logger.warning("hosting will be tried again error=%s", error, exc_info=not foreseen)
                self._view.notify()
                self._changed.wait(RETRY_S)
                self._changed.set()
                continue
            if not self._changed.is_set():
                self._settled.set()
            self._view.notify()

    def _reconcile(self) -> None:
        view = self._view.topics
        self._drop(view)
        self._open(view)
        self._register()

    def _wanted(self, view: TopicsView) -> set[Key]:
        return {
            (topic, number)
            for topic, assignment in view.assignments.items()
            if topic not in view.deleting
            for number, replicas in assignment.items()
            if replicas and replicas[0] == self._broker_id
        }

    def _drop(self, view: TopicsView) -> None:
        wanted = self._wanted(view)
        for key in self._unopened.keys() - wanted:
            del self._unopened[key]
        gone: dict[str, bool] = {}
        for key in [key for key in self._opened if key not in wanted]:
            topic = key[0]
            if topic not in gone:
                gone[topic] = topic in view.deleting or (
                    topic not in view.assignments and read_assignment(self._session, topic) is None
                )
            self._unhost(key)
            unregister_partition(self._session, *key)
            self._registered.pop(key, None)
            del self._opened[key]
            if gone[topic]:
                self._logs.delete(TopicPartition(*key))
            logger.info(
                "partition dropped partition=%s-%d reason=%s",
                *key,
                "topic deleted" if gone[topic] else "assigned elsewhere",
            )
        self._drop_deleted(view)
        for topic, deleted in gone.items():
            if deleted:
                self._configs.pop(topic, None)
                self._metrics.forget_topic(topic)

    def _drop_deleted(self, view: TopicsView) -> None:
        for topic in view.deleting:
            for number, replicas in view.assignments.get(topic, {}).items():
                key = TopicPartition(topic, number)
                if self._broker_id in replicas and self._logs.get(key) is not None:
                    self._logs.delete(key)
                    logger.info(
                        "partition dropped partition=%s reason=topic deleted meanwhile", key
                    )

    def _unhost(self, key: Key) -> None:
        hosted = self._hosted.pop(key, None)
        if hosted is None:
            return
        hosted.log.remove_append_listener(hosted.wake)
        hosted.wake()
        subscriber = self._subscribers.get(hosted.topic)
        if subscriber is not None:
            subscriber[1](hosted.number)

    def _open(self, view: TopicsView) -> None:
        for topic, config in view.configs.items():
            if self._configs.get(topic) != config:
                self._configure(topic, config)
        for key in sorted(self._wanted(view) - self._opened.keys()):
            try:
                self._opened[key] = self._logs.get_or_create(
                    TopicPartition(*key), self._configs.get(key[0], {})
                )
            except StorageError as error:
                # The others are not to suffer from one directory that cannot be read.
                if self._unopened.get(key) != str(error):
                    logger.warning("partition not opened partition=%s-%d error=%s", *key, error)
                self._unopened[key] = str(error)
                continue
            self._unopened.pop(key, None)
            gevent.sleep(0)

    def _configure(self, topic: str, config: Mapping[str, str]) -> None:
        try:
            self._logs.update_topic_config(topic, config)
        except ConfigError as error:
            logger.warning("topic configuration not applied topic=%s error=%s", topic, error)
            return
        self._configs[topic] = config

    def _register(self) -> None:
        if not self._registering:
            return
        generation = self._session.generation
        stale = sorted(key for key in self._opened if self._registered.get(key) != generation)
        if not stale:
            return
        self._being_registered = frozenset(stale)
        self._registering_until = time.monotonic() + REGISTERING_S
        self._answered.clear()
        try:
            epochs = register_partitions(
                self._session, stale, self._broker_id, controller_epoch(self._session)
            )
            self._serve(epochs, generation)
        finally:
            self._being_registered = frozenset()
            self._answered.set()
        logger.info("partitions hosted new=%d total=%d", len(epochs), len(self._hosted))

    def _serve(self, epochs: Mapping[Key, int], generation: int) -> None:
        for key, epoch in epochs.items():
            self._registered[key] = generation
            log = self._opened[key]
            log.leader_epoch = epoch
            hosted = self._hosted.get(key)
            if hosted is not None:
                hosted.leader_epoch = epoch
                continue
            hosted = Hosted(key, log, epoch, self._metrics.topic(key[0]))
            log.add_append_listener(hosted.wake)
            self._hosted[key] = hosted
            subscriber = self._subscribers.get(key[0])
            if subscriber is not None:
                subscriber[0](key[1], log)
