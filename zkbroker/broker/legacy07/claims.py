"""Which partitions have their views at this broker: creates and grows topics for 0.7, claims views.

    /legacy07/views/[topic]/[p]   "N-i making" -> files of the view -> "N-i"

Invariants: a topic has either views or 0.7 logs of its own, never both. A view is created once: a
view that ZooKeeper knows but that is missing here is never created again at position 0, where
clients of 0.7 know other messages. Views of partitions that become this broker's together are
created together, so that 0.7 clients learn of the topic once.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from zkbroker.broker.services import BrokerServices
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.errors import (
    ErrorCode,
    InvalidTopic,
    ProtocolError,
    RequestTimedOut,
    StorageError,
    UnknownTopicOrPartition,
)
from zkbroker.log import names
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.log.legacy07.directory import Claim
from zkbroker.log.legacy07.view import View07
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.records.builder import RECORD_OVERHEAD_BYTES
from zkbroker.records.layout import BATCH_HEADER_BYTES
from zkbroker.registry import legacy07_views as registry
from zkbroker.registry.legacy07_views import Shown
from zkbroker.registry.topic_rules import check_topic_name

logger = logging.getLogger(__name__)

_MADE_WITHIN_S = 10.0
_TOLD_WITHIN_S = 10.0
"""How long views of a topic wait for partitions that the controller has not announced yet."""
_GROW_ATTEMPTS = 5
_SEEN_WITHIN_S = 2.0
"""How long an attempt to grow a topic waits to see another broker's new partitions."""


class Claims07:
    """Creates the views of a broker, and the topics for them.

    Args:
        config: the settings of the 0.7 listener.
        services: of the broker.
        logs: the 0.7 logs, views among them.
        broker_id: the broker's id for 0.7.
        made: called after views were created, before any wait.
    """

    def __init__(
        self,
        config: Legacy07Config,
        services: BrokerServices,
        logs: Legacy07Logs,
        broker_id: int,
        made: Callable[[], object],
    ) -> None:
        self._made = made
        self._config = config
        self._services = services
        self._logs = logs
        self._broker_id = broker_id
        self._claimed: set[str] = set()
        self._reset_by_operator: set[str] = set()
        """Topics with a view that an operator has reset."""
        self._awaited: dict[str, tuple[set[int], float]] = {}
        """Topic -> awaited partitions, and how long the others wait for them."""

    @property
    def awaiting(self) -> bool:
        """Whether partitions are awaited that the controller has not announced yet."""
        return bool(self._awaited)

    def check(self) -> None:
        """Check that every view that was created here exists.

        Raises:
            StorageError: one does not; the message tells what to do.
            RegistryError: ZooKeeper does not answer.
        """
        topics = self._services.view.topics
        for topic in registry.declared(self._services.session):
            if topic not in topics.assignments or topic in topics.deleting:
                continue
            for number, shown in registry.shown(self._services.session, topic).items():
                if shown.broker_id == self._broker_id and not shown.making:
                    self._check_there(topic, number, shown.number)

    def _check_there(self, topic: str, partition: int, index: int) -> None:
        log = self._logs.get(topic, index)
        if isinstance(log, View07) and log.partition == partition:
            return
        folder = Path(self._config.log_dir) / f"{topic}-{index}"
        if isinstance(log, View07):
            what = f"is that of partition {log.partition}"
        elif log is None or not log.end:
            what = "is not there"
        elif log.size:
            what = "has no maps (*.map)"
        else:
            # An operator has put an empty file there: the view begins at the position in its name.
            self._reset_by_operator.add(topic)
            return
        raise StorageError(
            f"the view of partition {partition} of {topic} for clients of 0.7, {folder}, {what}. "
            "Bring it back from a copy. Without one, move what is left of it away and make the "
            f"folder again with one empty file in it, {names.file_name(10**15, names.KAFKA_07)} "
            "for example: the view then begins at the position in that name, which must be above "
            "any that 0.7 clients were given; those are out of range then"
        )

    # -- topics

    def may_share(self, topic: str) -> bool:
        """Whether a name could be that of a shared newer topic."""
        config = self._config
        if not config.share_new_topics and not config.topics:
            return False
        try:
            check_topic_name(topic)
        except (InvalidTopic, ProtocolError):
            return False
        return topic not in INTERNAL_TOPICS

    def wanted(self, topic: str) -> bool:
        """Whether the topic of a produced set is to have views.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        services = self._services
        if self._config.wants_view(topic):
            return True
        if services.view.exists(topic):
            return registry.is_declared(services.session, topic)
        return self._config.share_new_topics and topic not in services.view.topics.deleting

    def make_for(self, topic: str) -> None:
        """Create a topic that is first written through 0.7, or this broker's partitions of it.

        Raises:
            ZkbrokerError: it cannot be created.
        """
        self._logs.check_room(self._config.partitions(topic))
        self._make_topic(topic)
        self._claim(topic)
        if not self._logs.is_view(topic):
            self._grow(topic)

    def _make_topic(self, topic: str) -> None:
        services = self._services
        # Before the topic: a client that sees the topic must see the view.
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
        """Add partitions of this broker to a topic, as each broker of 0.7 has its own."""
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
                # Another broker has added its own, which this broker's view may not show yet.
                if not attempts_left:
                    raise
                services.view.wait_for(partial(self._has_grown, topic, len(known)), _SEEN_WITHIN_S)
                continue
            logger.info("topic grown through 0.7 topic=%s partitions=%d more", topic, count)
            break
        self._wait_here(topic, partitions=total)
        self._claim(topic)
        if not self._logs.is_view(topic):
            raise StorageError(f"no partition of {topic} has a view at this broker")

    def _has_grown(self, topic: str, count: int) -> bool:
        """Whether the cluster view shows more partitions of a topic than `count`, or no topic."""
        now = self._services.view.assignment(topic)
        return now is None or len(now) > count

    def _replicas(self, count: int) -> list[list[int]]:
        """Return the replicas of each new partition: this broker first, the others in turn."""
        services = self._services
        own = services.broker_id
        others = sorted(each for each in services.view.brokers if each != own)
        more = min(services.config.default_replication_factor - 1, len(others))
        return [
            [own, *(others[(number + at) % len(others)] for at in range(more))]
            for number in range(count)
        ]

    def _settings(self) -> dict[str, str]:
        """Return settings with which every message that 0.7 allows fits."""
        needed = self._config.max_message_bytes + RECORD_OVERHEAD_BYTES[2] + BATCH_HEADER_BYTES
        if needed <= self._services.config.log.max_message_bytes:
            return {}
        return {"max.message.bytes": str(needed)}

    def _wait_here(self, topic: str, partitions: int = 1) -> None:
        """Wait until a topic has enough partitions, and those replicated here first are open."""
        view = self._services.view

        def there() -> bool:
            assignment = view.assignment(topic)
            if assignment is None or len(assignment) < partitions:
                return False
            return not self._not_open(topic, self._first_here(topic))

        if not view.wait_for(there, _MADE_WITHIN_S):
            raise RequestTimedOut(f"topic {topic} was not made within {_MADE_WITHIN_S:g} s")

    # -- views

    def due(self) -> list[str]:
        """Return the topics whose views here must be created or checked now."""
        topics = self._services.view.topics
        found = []
        for topic in topics.assignments:
            if topic in topics.deleting or topic in INTERNAL_TOPICS:
                continue
            wanted = self._config.wants_view(topic) or topic in self._reset_by_operator
            if not self._logs.is_view(topic) and (not wanted or self._logs.has_data(topic)):
                continue
            here = {view.partition for view in self._logs.views(topic).values()}
            missing = [each for each in self._first_here(topic) if each not in here]
            if (topic not in self._claimed or missing) and not self._awaits(topic, missing):
                found.append(topic)
        self._claimed &= topics.assignments.keys()
        self._awaited = {
            topic: each for topic, each in self._awaited.items() if topic in topics.assignments
        }
        return found

    def claim_due(self, topic: str) -> None:
        """Create the views of a due topic.

        Raises:
            ZkbrokerError: ZooKeeper or the disk failed.
        """
        if self._config.wants_view(topic):
            registry.declare(self._services.session, topic)
        self._claim(topic)
        self._claimed.add(topic)

    def forget(self, topic: str) -> None:
        """Forget a deleted topic.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._claimed.discard(topic)
        registry.forget(self._services.session, topic)

    def _awaits(self, topic: str, missing: Sequence[int]) -> bool:
        """Whether views of a topic wait for further ones, to be created together."""
        coming = self._not_open(topic, missing)
        if not coming:
            self._awaited.pop(topic, None)
            return False
        now = time.monotonic()
        known = self._awaited.get(topic)
        if known is None or not coming <= known[0]:
            known = self._awaited[topic] = coming, now + _TOLD_WITHIN_S
        return now < known[1]

    def _not_open(self, topic: str, numbers: Sequence[int]) -> set[int]:
        found = {number: self._services.replicas.get(topic, number) for number in numbers}
        return {number for number, each in found.items() if each is None or not each.has_log}

    def _first_here(self, topic: str) -> list[int]:
        assignment = self._services.view.assignment(topic) or {}
        own = self._services.broker_id
        return sorted(
            number for number, replicas in assignment.items() if replicas and replicas[0] == own
        )

    def _claim(self, topic: str) -> None:
        """Create the views of the partitions that are to have them here."""
        services = self._services
        known = registry.shown(services.session, topic)
        here = {view.partition for view in self._logs.views(topic).values()}
        claims: list[Claim] = []
        making: list[int] = []
        taken = {each.number for each in known.values() if each.broker_id == self._broker_id}
        for number in sorted({*self._first_here(topic), *known}):
            partition = services.replicas.get(topic, number)
            view = known.get(number)
            if view is not None and view.broker_id != self._broker_id:
                continue
            if number not in here:
                if partition is None or not partition.has_log:
                    continue
                if view is None:
                    index = next(at for at in range(len(taken) + 1) if at not in taken)
                    view = Shown(self._broker_id, index, making=True)
                    if not registry.claim(services.session, topic, number, view):
                        continue
                    taken.add(index)
                elif not view.making:
                    self._check_there(topic, number, view.number)
                claims.append(Claim(view.number, number, partition.log_start_offset))
            if view is not None and view.making:
                making.append(number)
                known[number] = view
        if claims:
            self._logs.make_views(topic, claims)
            self._made()
        for number in making:
            registry.note_made(services.session, topic, number, known[number])
