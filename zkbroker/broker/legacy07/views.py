"""Newer topics as clients of 0.7 see them: follows masters, and appends produced sets to them.

    0.7 produce --> batches --> the partition's leader, here or at another broker
    partition (any role) -- new high watermark --> its view, rendered or as it was sent

A view is at the broker that was its partition's first replica when it was created, and is rendered
from this broker's own replica, so that it does not depend on the leader. While the broker is down,
its views are not registered, like the logs of a 0.7 broker; afterwards they show the messages that
were written meanwhile.

Invariant: one task follows the masters. A produce also follows its own partition, so that messages
that are flushed at once are visible at once. `Claims07` decides which views there are.
"""

import logging
import time
from collections.abc import Callable

from zkbroker.broker.connections import BrokerConnections
from zkbroker.broker.legacy07.claims import Claims07
from zkbroker.broker.legacy07.forwarding import forward
from zkbroker.broker.services import BrokerServices
from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.errors import StorageError, ZkbrokerError
from zkbroker.log import TopicPartition
from zkbroker.log.legacy07 import Legacy07Logs
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.log.legacy07.view import STRETCH_BYTES, View07
from zkbroker.records.generations import Converted07, convert_set
from zkbroker.replica.delayed import DelayedOperation
from zkbroker.replica.partition import Partition
from zkbroker.runtime import OwnerLoop
from zkbroker.runtime.pacing import paced

logger = logging.getLogger(__name__)

_CONVERTED_AT_ONCE_BYTES = 64 * 1024
_PLAIN_AT_ONCE_BYTES = 1024 * 1024
_LOOK_AGAIN_S = 5.0
_AT_A_TIME = 16


class _Waker(DelayedOperation):
    """Makes a view follow when its partition's high watermark moves."""

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
        self._making = services.runtime.lock()
        self._partitions: dict[View07, tuple[Partition, _Waker]] = {}
        self._behind: dict[View07, None] = {}
        self._look = True
        self._look_at = 0.0
        self._claims = Claims07(config, services, logs, broker_id, self._attach)
        self._connections = BrokerConnections(
            services.dialing, services.view, "legacy07", config.forward_timeout_ms
        )
        self._warned_of: set[str] = set()
        self._with_own_logs: set[str] = set()
        """Topics known to have 0.7 logs of their own, with data; no more than there are logs."""
        self._loop = OwnerLoop(
            services.runtime,
            self._step,
            name="legacy07-views",
            logger=logger,
            foreseen=(ZkbrokerError, OSError),
            ended=lambda: services.draining,
        )

    # -- life cycle

    def check(self) -> None:
        """Check that every view that was made here exists, before the views are registered.

        Raises:
            StorageError: one does not; the message tells what to do.
            RegistryError: ZooKeeper does not answer.
        """
        self._claims.check()

    def start(self) -> None:
        """Find the masters of existing views, claim new views, and begin to follow."""
        self._services.replicas.on_change(self._partitions_announced)
        self._attach()
        self._loop.start(0.0)

    def close(self) -> None:
        """Stop following."""
        self._loop.close()
        for partition, waker in self._partitions.values():
            partition.waiters.unwatch(waker)
        self._connections.close()

    def topics_changed(self) -> None:
        """Make the task check the topics again; returns at once."""
        self._look = True
        self._loop.set()

    def _partitions_announced(self) -> None:
        if self._claims.awaiting:
            self.topics_changed()

    def master(self, topic: str, number: int) -> LogMaster | None:
        """Return the master of a view; None if there is no replica of it here."""
        partition = self._services.replicas.get(topic, number)
        if partition is not None:
            return _master(partition)
        # The controller has not announced it yet; its log is enough to rebuild the files.
        log = self._services.logs.get(TopicPartition(topic, number))
        return None if log is None else LogMaster(log, lambda: log.log_end_offset, lambda: -1)

    # -- producing

    def prepare(self, topic: str) -> None:
        """Create the newer topic and its views, if a set for a topic without logs requires it.

        Raises:
            ZkbrokerError: the topic must have views, but they cannot be created.
        """
        if topic in self._with_own_logs or self._logs.is_view(topic):
            return
        if not self._claims.may_share(topic):
            return
        if self._logs.has_data(topic):
            self._with_own_logs.add(topic)
            return
        with self._making:
            if self._logs.is_view(topic) or not self._claims.wanted(topic):
                return
            self._claims.make_for(topic)

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
            MessageSizeTooLarge: a message is too large for the topic; nothing was appended.
            ZkbrokerError: it was not appended, or the outcome is unknown.
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
            if partition.leading is not None:
                now_ms = services.runtime.now_ms()
                result = partition.leading.append(converted.batches, now_ms=now_ms)
                metrics = services.metrics.topic(topic)
                metrics.messages_in += result.count
                metrics.bytes_in += result.size_bytes
                view.note_sent(result.base_offset, converted.stretches, term)
            else:
                timeout_ms = self._config.forward_timeout_ms
                base = forward(self._connections, partition, converted, timeout_ms)
                if base is not None:
                    view.note_sent(base, converted.stretches, term)
        if view.behind:
            view.catch_up()

    def _convert(self, data: bytes | memoryview, max_batch_bytes: int) -> Converted07:
        return convert_set(
            data,
            self._services.runtime.now_ms(),
            max_batch_bytes=max_batch_bytes,
            max_stretch_bytes=STRETCH_BYTES,
            max_decompressed_bytes=self._services.config.max_decompressed_bytes,
        )

    # -- following

    def _step(self) -> float:
        now = time.monotonic()
        if self._look or now >= self._look_at:
            self._look_at = now + _LOOK_AGAIN_S
            self._look = False
            try:
                self._check_topics()
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

    def _check_topics(self) -> None:
        for topic in self._services.view.topics.deleting & self._logs.topics:
            self._delete(topic)
        self._warn_of_own_logs()
        for topic in self._claims.due():
            with self._making:
                self._claims.claim_due(topic)
            self._runtime.sleep(0)

    def _warn_of_own_logs(self) -> None:
        """Log once the newer topics that should be shared, but have 0.7 logs of their own."""
        for topic in sorted(self._logs.topics - self._warned_of):
            if (
                self._config.wants_view(topic)
                and not self._logs.is_view(topic)
                and self._logs.has_data(topic)
            ):
                self._warned_of.add(topic)
                logger.warning(
                    "topic %s matches legacy07.topics, and has 0.7 logs of its own in %s: clients "
                    "of 0.7 go on with those, and newer ones do not see them. Mirror them into the "
                    "newer topic, and put an empty file in the place of each, as the page on Kafka "
                    "0.7 says under 'A topic that has 0.7 logs already'; or take the topic out of "
                    "legacy07.topics",
                    topic,
                    self._logs.directory,
                )

    def _delete(self, topic: str) -> None:
        for (_, index), view in self._logs.views(topic).items():
            try:
                self._logs.delete_view(topic, index)
            finally:
                # Not before: while a deletion waits, another task may attach all views.
                self._detach(view)
        self._claims.forget(topic)

    def _attach(self) -> None:
        """Let each view follow the present partition object."""
        views = self._logs.views()
        for (topic, index), view in paced(self._runtime, views.items(), _AT_A_TIME):
            if self._logs.get(topic, index) is not view:
                continue  # deleted meanwhile
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
        if self._behind:
            self._loop.set()

    def _follow(self, view: View07, partition: Partition) -> None:
        def wake() -> None:
            self._behind[view] = None
            self._loop.set()

        waker = _Waker(wake)
        self._partitions[view] = partition, waker
        view.attach(_master(partition))
        partition.waiters.watch_high_watermark(waker)

    def _detach(self, view: View07) -> None:
        before = self._partitions.pop(view, None)
        if before is not None:
            before[0].waiters.unwatch(before[1])
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
