"""Newer topics as clients of 0.7 see them: which partitions have a view here, and what goes where.

    0.7 produce --> batches --> the partition's leader, here or at another broker
    partition (any role) -- new high watermark --> its view, rendered or as it was sent

A view is at the broker that was its partition's first replica when it was made, and is rendered
from this broker's own replica, so that it goes on whoever leads. While the broker is down its views
are away with its nodes, as 0.7 brokers are; what others lead meanwhile is shown when it is back.

Invariant: a topic either has views or 0.7 logs of its own, never both. One task follows the
masters; a produce follows its own partition too, so that what is flushed at once is seen at once.
"""

import logging
import time
from collections.abc import Callable, Iterable

from zkbroker.broker.services import BrokerServices
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.controller.connections import BrokerLine
from zkbroker.errors import (
    ErrorCode,
    InvalidTopic,
    NotLeaderForPartition,
    ProtocolError,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
    ZkbrokerError,
)
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.log.legacy07.directory import Claim
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.log.legacy07.view import STRETCH_BYTES, View07
from zkbroker.protocol.messages import ProduceRequest, ProduceResponse
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.records import iter_entries
from zkbroker.records.builder import RECORD_OVERHEAD_BYTES
from zkbroker.records.generations import Converted07, convert_set
from zkbroker.records.layout import BATCH_HEADER_BYTES
from zkbroker.registry import legacy07_views as registry
from zkbroker.registry.legacy07_views import Shown
from zkbroker.registry.topic_rules import check_topic_name
from zkbroker.replica.delayed import DelayedOperation
from zkbroker.replica.partition import Partition
from zkbroker.runtime import OwnerLoop

logger = logging.getLogger(__name__)

_CONVERTED_AT_ONCE_BYTES = 64 * 1024
_PLAIN_AT_ONCE_BYTES = 1024 * 1024
_MADE_WITHIN_S = 10.0
_LOOK_AGAIN_S = 5.0
_GROW_ATTEMPTS = 5
_PRODUCE_VERSION = 3
_AT_A_TIME = 16


class _Waker(DelayedOperation):
    """Has a view followed when its partition's high watermark moves."""

    __slots__ = ("_follow",)

    def __init__(self, follow: Callable[[], object]) -> None:
        self._follow = follow

    def wake(self) -> None:
        self._follow()


class Views07:
    """The views of a broker.

    Args:
        config: the settings of the 0.7 listener.
        services: of the broker.
        logs: the 0.7 logs, views among them.
        broker_id: the broker's id for 0.7.
    """

    def __init__(
        self,
        config: Legacy07Config,
        services: BrokerServices,
        logs: Legacy07Logs,
        broker_id: int,
    ) -> None:
        self._config = config
        self._services = services
        self._runtime = services.runtime
        self._logs = logs
        self._broker_id = broker_id
        self._making = services.runtime.lock()
        self._partitions: dict[View07, tuple[Partition, _Waker]] = {}
        self._behind: dict[View07, None] = {}
        self._look = True
        self._look_at = 0.0
        self._claimed: set[str] = set()
        self._apart: set[str] = set()
        """Topics that are known to have 0.7 logs of their own, with data: no more than logs."""
        self._lines: dict[int, tuple[BrokerLine, object]] = {}
        self._loop = OwnerLoop(
            services.runtime,
            self._step,
            name="legacy07-views",
            logger=logger,
            foreseen=(ZkbrokerError, OSError),
            ended=services.nothing_waits,
        )

    # -- life cycle

    def start(self) -> None:
        """Find the masters of the views that are there, claim what is new, and follow."""
        for topic in self._logs.topics:
            if not self._logs.is_view(topic) and self._config.wants_view(topic):
                logger.warning(
                    "topic %s matches legacy07.topics, and has 0.7 logs of its own in %s: it stays "
                    "as it is. Copy it with a 0.7 consumer to a topic of another name to share it",
                    topic,
                    self._logs.directory,
                )
        self._attach()
        self._loop.start(0.0)

    def close(self) -> None:
        """Follow no more."""
        self._loop.close()
        for partition, waker in self._partitions.values():
            partition.unwatch(waker)
        for line, _ in self._lines.values():
            line.close()

    def topics_changed(self) -> None:
        """Look at the topics again; returns at once."""
        self._look = True
        self._loop.set()

    def master(self, topic: str, number: int) -> LogMaster | None:
        """Return what a view is made from; None where there is no replica of it here."""
        partition = self._services.replicas.get(topic, number)
        return None if partition is None else _master(partition)

    # -- producing

    def prepare(self, topic: str) -> None:
        """Make the newer topic and its views, where a set for a topic without logs asks for it.

        Raises:
            ZkbrokerError: it has to have views, and cannot.
        """
        if topic in self._apart or self._logs.is_view(topic) or not self._may_share(topic):
            return
        if self._logs.has_data(topic):
            self._apart.add(topic)
            return
        with self._making:
            if self._logs.is_view(topic) or not self._wanted(topic):
                return
            self._logs.check_room(self._config.partitions(topic))
            self._make_topic(topic)
            self._claim(topic)
            if not self._logs.is_view(topic):
                self._grow(topic)

    def produce(
        self, topic: str, view: View07, data: bytes | memoryview, *, plain: bool = False
    ) -> None:
        """Append a checked set to the master of a view.

        Args:
            topic: of both.
            view: of the partition.
            data: whole entries.
            plain: none of them is a wrapper.

        Raises:
            MessageSizeTooLarge: a message is larger than the topic takes; nothing was appended.
            ZkbrokerError: it was not appended, or nobody knows.
        """
        services = self._services
        partition = services.partition(topic, view.partition)
        most = partition.log.config.max_message_bytes
        if len(data) <= (_PLAIN_AT_ONCE_BYTES if plain else _CONVERTED_AT_ONCE_BYTES):
            converted = self._convert(data, most)
        else:
            converted = self._runtime.offload(self._convert, data, most)
        if not converted.messages:
            return
        master = view.master
        with view.appending():
            term = (0, 0) if master is None else master.term
            if partition.is_leader:
                result = partition.append(converted.batches, now_ms=services.now_ms()).result
                metrics = services.metrics.topic(topic)
                metrics.messages_in += result.count
                metrics.bytes_in += result.size_bytes
                view.note_sent(result.base_offset, converted.stretches, term)
            else:
                base = self._forward(topic, partition, converted)
                if base is not None:
                    view.note_sent(base, converted.stretches, term)
        if view.behind:
            view.catch_up()

    def _convert(self, data: bytes | memoryview, max_batch_bytes: int) -> Converted07:
        return convert_set(
            data,
            self._services.now_ms(),
            max_batch_bytes=max_batch_bytes,
            max_stretch_bytes=STRETCH_BYTES,
            max_decompressed_bytes=self._services.config.max_decompressed_bytes,
        )

    def _forward(self, topic: str, partition: Partition, converted: Converted07) -> int | None:
        """Have the leader append it; returns the first offset, None if there is no such one.

        Raises:
            ZkbrokerError: the leader did not take it, or is not known.
        """
        leader = partition.leader
        base = following = None
        view = memoryview(converted.batches)
        for entry in iter_entries(view):
            batch = view[entry.position : entry.position + entry.size]
            asked = ProduceRequestPartition(partition.key.partition, batch)
            timeout_ms = self._config.forward_timeout_ms
            request = ProduceRequest(None, 1, timeout_ms, [ProduceRequestTopic(topic, [asked])])
            answer = self._send(leader, request).topics[0].partitions[0]
            if answer.error_code:
                raise ProtocolError(
                    f"broker {leader}, which leads {partition.key}, did not take it: "
                    f"{ErrorCode(answer.error_code).name}",
                    code=ErrorCode(answer.error_code),
                )
            if base is None:
                base = following = answer.base_offset
            if following != answer.base_offset:
                # Others wrote between two batches: it is shown as the master has it.
                following = None
            if following is not None:
                following += entry.record_count
        return None if following is None else base

    def _send(self, broker_id: int, request: ProduceRequest) -> ProduceResponse:
        broker = self._services.view.brokers.get(broker_id)
        if broker is None:
            raise NotLeaderForPartition("no live broker leads it")
        known = self._lines.get(broker_id)
        if known is None or known[1] != broker:
            if known is not None:
                known[0].close()
            line = BrokerLine(
                self._runtime,
                broker,
                f"broker-{self._broker_id}-legacy07",
                self._config.forward_timeout_ms,
            )
            known = self._lines[broker_id] = (line, broker)
        answer: ProduceResponse = known[0].send(request, _PRODUCE_VERSION)
        return answer

    # -- which topics

    def _may_share(self, topic: str) -> bool:
        config = self._config
        if not config.share_new_topics and not config.topics:
            return False
        try:
            check_topic_name(topic)
        except (InvalidTopic, ProtocolError):
            return False
        return topic not in INTERNAL_TOPICS

    def _wanted(self, topic: str) -> bool:
        services = self._services
        if self._config.wants_view(topic):
            return True
        if services.view.exists(topic):
            return registry.is_declared(services.session, topic)
        return self._config.share_new_topics and topic not in services.view.topics.deleting

    def _make_topic(self, topic: str) -> None:
        """Make a topic that is first written through 0.7, with its partitions at this broker."""
        services = self._services
        # Before the topic: who sees the one is to see the other.
        registry.declare(services.session, topic)
        if not services.view.exists(topic):
            count = self._config.partitions(topic)
            try:
                services.topics.create(
                    topic,
                    assignment=dict(enumerate(self._replicas(count))),
                    settings=self._settings(),
                )
                logger.info("topic made through 0.7 topic=%s partitions=%d", topic, count)
            except ProtocolError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        self._wait_here(topic)

    def _grow(self, topic: str) -> None:
        """Give a topic partitions of this broker, as each broker of 0.7 has its own.

        Raises:
            ZkbrokerError: it cannot be.
        """
        services = self._services
        count = total = self._config.partitions(topic)
        for attempts_left in reversed(range(_GROW_ATTEMPTS)):
            known = services.view.assignment(topic)
            if known is None:
                raise UnknownTopicOrPartition(f"topic {topic} was deleted")
            total = len(known) + count
            try:
                services.topics.add_partitions(topic, total, self._replicas(count))
            except ProtocolError:
                # Another broker added its own at the same moment.
                if not attempts_left:
                    raise
                self._runtime.sleep(0.2)
                continue
            logger.info("topic grown through 0.7 topic=%s partitions=%d more", topic, count)
            break
        self._wait_here(topic, partitions=total)
        self._claim(topic)
        if not self._logs.is_view(topic):
            raise StorageError(f"no partition of {topic} has its view at this broker")

    def _replicas(self, count: int) -> list[list[int]]:
        """Return for each new partition its replicas: this broker first, the others in turn."""
        services = self._services
        own = services.broker_id
        others = sorted(each for each in services.view.brokers if each != own)
        more = min(services.config.default_replication_factor - 1, len(others))
        return [
            [own, *(others[(number + at) % len(others)] for at in range(more))]
            for number in range(count)
        ]

    def _settings(self) -> dict[str, str]:
        """A message that 0.7 allows is to fit."""
        needed = self._config.max_message_bytes + RECORD_OVERHEAD_BYTES[2] + BATCH_HEADER_BYTES
        if needed <= self._services.config.log.max_message_bytes:
            return {}
        return {"max.message.bytes": str(needed)}

    def _first_here(self, topic: str) -> list[int]:
        assignment = self._services.view.assignment(topic) or {}
        own = self._services.broker_id
        return sorted(
            number for number, replicas in assignment.items() if replicas and replicas[0] == own
        )

    def _wait_here(self, topic: str, partitions: int = 1) -> None:
        """Wait until a topic has so many partitions, and those first replicated here are open."""
        services = self._services

        def there() -> bool:
            assignment = services.view.assignment(topic)
            if assignment is None or len(assignment) < partitions:
                return False
            found = [services.replicas.get(topic, number) for number in self._first_here(topic)]
            return all(each is not None and each.has_log for each in found)

        if not services.view.wait_for(there, _MADE_WITHIN_S):
            raise RequestTimedOut(f"topic {topic} was not made within {_MADE_WITHIN_S:g} s")

    def _claim(self, topic: str) -> None:
        """Make the views of the partitions that are to have theirs here.

        Raises:
            ZkbrokerError: ZooKeeper or the disk failed.
        """
        services = self._services
        known = registry.shown(services.session, topic)
        here = {view.partition for view in self._logs.views(topic).values()}
        claims = []
        taken = {each.number for each in known.values() if each.broker_id == self._broker_id}
        for number in sorted({*self._first_here(topic), *known}):
            partition = services.replicas.get(topic, number)
            if number in here or partition is None or not partition.has_log:
                continue
            view = known.get(number)
            if view is None:
                index = next(at for at in range(len(taken) + 1) if at not in taken)
                view = Shown(self._broker_id, index)
                if not registry.claim(services.session, topic, number, view):
                    continue
                taken.add(index)
            if view.broker_id == self._broker_id:
                claims.append(Claim(view.number, number, partition.log_start_offset))
        if claims:
            self._logs.make_views(topic, claims)
            self._attach()

    # -- following

    def _step(self) -> float:
        now = time.monotonic()
        if self._look or now >= self._look_at:
            self._look_at = now + _LOOK_AGAIN_S
            self._look = False
            try:
                self._look_at_topics()
            except BaseException:
                self._look = True
                raise
            self._attach()
        while self._behind:
            view = next(iter(self._behind))
            del self._behind[view]
            try:
                view.catch_up()
            except StorageError as error:
                logger.warning("0.7 view not followed directory=%s: %s", view.directory, error)
            self._runtime.sleep(0)
        return _LOOK_AGAIN_S

    def _look_at_topics(self) -> None:
        services = self._services
        topics = services.view.topics
        for topic in topics.deleting & self._logs.topics:
            self._delete(topic)
        for topic in topics.assignments:
            if topic in topics.deleting or topic in INTERNAL_TOPICS:
                continue
            if not self._logs.is_view(topic) and (
                not self._config.wants_view(topic) or self._logs.has_data(topic)
            ):
                continue
            here = {view.partition for view in self._logs.views(topic).values()}
            missing = [each for each in self._first_here(topic) if each not in here]
            if topic in self._claimed and not missing:
                continue
            with self._making:
                if self._config.wants_view(topic):
                    registry.declare(services.session, topic)
                self._claim(topic)
                self._claimed.add(topic)
            self._runtime.sleep(0)
        self._claimed &= topics.assignments.keys()

    def _delete(self, topic: str) -> None:
        for (_, index), view in self._logs.views(topic).items():
            self._detach(view)
            self._logs.delete_view(topic, index)
        self._claimed.discard(topic)
        registry.forget(self._services.session, topic)

    def _attach(self) -> None:
        """Have each view follow the partition that is here now."""
        known: Iterable[tuple[tuple[str, int], View07]] = self._logs.views().items()
        for count, ((topic, _), view) in enumerate(list(known)):
            partition = self._services.replicas.get(topic, view.partition)
            if partition is not None and not partition.has_log:
                partition = None
            before = self._partitions.get(view)
            if before is None or before[0] is not partition:
                self._detach(view)
                if partition is not None:
                    self._follow(view, partition)
            if view.behind:
                self._behind[view] = None
            if count % _AT_A_TIME == _AT_A_TIME - 1:
                self._runtime.sleep(0)
        if self._behind:
            self._loop.set()

    def _follow(self, view: View07, partition: Partition) -> None:
        def wake() -> None:
            self._behind[view] = None
            self._loop.set()

        waker = _Waker(wake)
        self._partitions[view] = partition, waker
        view.attach(_master(partition))
        partition.watch_high_watermark(waker)

    def _detach(self, view: View07) -> None:
        before = self._partitions.pop(view, None)
        if before is not None:
            before[0].unwatch(before[1])
        self._behind.pop(view, None)
        view.attach(None)


def _master(partition: Partition) -> LogMaster | None:
    if not partition.has_log:
        return None
    try:
        log = partition.log
    except StorageError:
        return None
    return LogMaster(log, lambda: partition.high_watermark, lambda: partition.leader_epoch)
