"""Carries out LeaderAndIsr and StopReplica: ends and begins the roles of this broker's replicas.

    LeaderAndIsr --> become leader | become follower        StopReplica --> stopped, deleted
      --> fetchers, subscribers and ZooKeeper follow

Invariants: requests are carried out one at a time, and never for a controller that a later one has
replaced meanwhile. A role begins only for a newer leader epoch. A failure of one partition sets
only that partition's error code; a partition whose log cannot be used is offline. A request is
answered once it is carried out in memory and in the logs; `LeaderStateWriter` writes to ZooKeeper
later. No lock is held over a network or ZooKeeper call.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from zkbroker.errors import ErrorCode, ProtocolError, RegistryError, ZkbrokerError
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition, PartitionError
from zkbroker.replica.fencing import (
    ONLY_CONNECTION,
    ControllerFence,
    ControllerRefusal,
    states_in,
)
from zkbroker.replica.fetcher_manager import FetcherManager
from zkbroker.replica.following import Following
from zkbroker.replica.leadership import LeaderSettings, Leadership
from zkbroker.replica.log_opening import LogOpening
from zkbroker.replica.partition import Partition
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import side_by_side

logger = logging.getLogger(__name__)

ROLES_AT_ONCE = 8
"""Partitions whose roles change at the same time, so that one flush writes their changes."""

ANNOUNCED_AT_ONCE = 200
"""Partitions of one batch: its leaders are registered while the roles of the next batch begin."""

Change = tuple[Partition, LeaderAndIsrPartition]
Codes = dict[tuple[str, int], ErrorCode]
TopicConfigs = Mapping[str, Mapping[str, str]]
ConfigsOfTopics = Callable[[Set[str]], TopicConfigs]
"""Returns the settings of topics, where they are known."""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Args: lead is called when this broker begins to lead a partition; leave when that ends."""

    lead: Callable[[Leadership], object]
    leave: Callable[[TopicPartition], object]


class RoleChanges:
    """Changes the roles of partitions as the controller decides.

    Args: configs reads the settings of topics before their first logs are created.
    """

    def __init__(
        self,
        broker_id: int,
        fence: ControllerFence,
        opening: LogOpening,
        writer: LeaderStateWriter,
        fetchers: FetcherManager,
        configs: ConfigsOfTopics,
        settings: LeaderSettings,
        *,
        runtime: Runtime,
    ) -> None:
        self._broker_id = broker_id
        self._fence = fence
        self._refusal = ControllerRefusal(fence)
        self._opening = opening
        self._writer = writer
        self._fetchers = fetchers
        self._configs = configs
        self._settings = settings
        self._runtime = runtime
        self._lock = runtime.lock()
        self._under_way = 0
        self._carried_out_of = -1
        self.decided = runtime.event()
        """Set for a moment after each LeaderAndIsr, to wake requests that wait for a partition."""
        self.listeners: list[Callable[[], object]] = []
        """Called after each LeaderAndIsr; they must not wait."""
        self.partitions: dict[tuple[str, int], Partition] = {}
        """Every partition of which this broker has a replica."""
        self.subscribers: dict[str, Subscriber] = {}
        """By topic."""
        self.leaving = False
        """Whether this broker is about to stop, and follows no further partitions."""

    @property
    def caught_up(self) -> bool:
        """Whether every LeaderAndIsr of the obeyed controller is carried out, and at least one.

        A new controller, or the controller of a new broker, sends one for all of its replicas.
        """
        return not self._under_way and self._carried_out_of >= self._fence.controller_epoch

    def leader_and_isr(
        self, request: LeaderAndIsrRequest, connection: int = ONLY_CONNECTION
    ) -> LeaderAndIsrResponse:
        """Carry out a LeaderAndIsr; errors are codes in the response, never raised.

        Args:
            request: of a controller.
            connection: see `ControllerFence.check`.
        """
        self._under_way += 1
        try:
            return self._leader_and_isr(request, connection)
        finally:
            self._under_way -= 1
            for function in tuple(self.listeners):
                function()

    def _leader_and_isr(
        self, request: LeaderAndIsrRequest, connection: int
    ) -> LeaderAndIsrResponse:
        states = states_in(request)
        code = self._refusal.of(request, connection)
        codes: Codes = {}
        if not code:
            valid, codes = self._refusal.validated(request.controller_id, states, self.partitions)
            found = [(TopicPartition(topic, state.partition), state) for topic, state in valid]
            new = {key for key, _ in found if key not in self.partitions}
            configs = self._configs_of(new) if new else {}
            with self._lock:
                # A later controller may have been obeyed while this request waited.
                code = self._refusal.of(request, connection)
                if not code:
                    codes |= self._apply(
                        [(self._partition(key), state) for key, state in found], configs
                    )
        if code:
            codes = {(topic, state.partition): code for topic, state in states}
        else:
            self._carried_out_of = max(self._carried_out_of, request.controller_epoch)
            self.decided.set()
            self.decided.clear()
        return LeaderAndIsrResponse(
            code, [PartitionError(topic, number, each) for (topic, number), each in codes.items()]
        )

    def _configs_of(self, keys: Set[TopicPartition]) -> TopicConfigs:
        topics = {key.topic for key in keys if not self._opening.has_log(key)}
        if not topics:
            return {}
        try:
            return self._configs(topics)
        except RegistryError as error:
            # The logs are created with the known settings; the rest follow with ZooKeeper's return.
            logger.warning("topic settings not read topics=%d error=%s", len(topics), error)
            return {}

    def _partition(self, key: TopicPartition) -> Partition:
        return self.partitions.get(key) or Partition(
            key, self._broker_id, runtime=self._runtime, settings=self._settings
        )

    def _apply(self, changes: Iterable[Change], configs: TopicConfigs) -> Codes:
        codes: Codes = {}
        soon: list[Change] = []
        later: list[Change] = []
        following: list[Change] = []
        for partition, state in changes:
            code = codes[partition.key] = self._check(partition, state)
            if code:
                # A controller that takes over repeats earlier decisions.
                repeated = state.leader_epoch == partition.leader_epoch
                logger.log(
                    logging.DEBUG if repeated else logging.INFO,
                    "LeaderAndIsr ignored partition=%s epoch=%d own=%d code=%s",
                    partition.key,
                    state.leader_epoch,
                    partition.leader_epoch,
                    code.name,
                )
            elif state.leader == self._broker_id:
                later.append((partition, state))
            else:
                # A follower with an open log needs no disk access and begins to fetch before the
                # others are done: its leader cannot acknowledge messages until it has them.
                (soon if partition.has_log else following).append((partition, state))
        later += following
        led_before = {partition.key for partition, _ in (*soon, *later) if partition.leading}
        if soon:
            codes |= self._begin(soon, configs, led_before)
        for start in range(0, len(later), ANNOUNCED_AT_ONCE):
            part = later[start : start + ANNOUNCED_AT_ONCE]
            codes |= self._begin(part, configs, led_before)
        return codes

    def _check(self, partition: Partition, state: LeaderAndIsrPartition) -> ErrorCode:
        if state.leader_epoch <= partition.leader_epoch:
            # A controller that was notified of a failed directory repeats its decisions: this code
            # tells it which replicas are lost.
            if partition.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def _begin(
        self, changes: Sequence[Change], configs: TopicConfigs, led_before: Set[TopicPartition]
    ) -> Codes:
        codes: Codes = {}
        begun: dict[TopicPartition, Partition] = {}

        def begin(change: Change) -> None:
            partition, state = change
            try:
                # A leader has a log, which was not lost.
                if partition.leading is None:
                    self._opening.open(partition, state, configs)
                if state.leader == self._broker_id:
                    partition.become_leader(state)
                else:
                    partition.become_follower(state)
            except ZkbrokerError as error:
                codes[partition.key] = self._failed(partition, error)
            else:
                begun[partition.key] = self.partitions[partition.key] = partition
                logger.info(
                    "partition=%s role=%s leader=%d epoch=%d isr=%s log_end_offset=%d",
                    partition.key,
                    partition.role.name,
                    state.leader,
                    state.leader_epoch,
                    state.isr,
                    partition.log_end_offset,
                )
            self._runtime.sleep(0)

        followed = [partition.key for partition, _ in changes if partition.leading is None]
        if followed:
            self._fetchers.forget(followed)
        # Each creates a log, or writes its epoch to disk.
        if len(changes) == 1:
            begin(changes[0])
        else:
            side_by_side(self._runtime, changes, begin, ROLES_AT_ONCE, "role-change")
        self._announce([each for each, _ in changes if each.key in begun], led_before)
        return codes

    def _failed(self, partition: Partition, error: ZkbrokerError) -> ErrorCode:
        if isinstance(error, ProtocolError):
            logger.error("role not changed partition=%s error=%s", partition.key, error)
            return error.code
        logger.error(
            "partition offline until the broker is restarted partition=%s error=%s",
            partition.key,
            error,
        )
        self.partitions[partition.key] = partition
        led = partition.leading is not None
        partition.mark_offline()
        if led:
            self._writer.unregister([partition.key])
        self._notify_left(partition.key)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _announce(self, changed: list[Partition], led_before: Set[TopicPartition]) -> None:
        """Pass the new roles on to fetchers, subscribers and ZooKeeper."""
        # Some may have gone offline while others were writing to disk.
        leading = [each.leading for each in changed if each.leading is not None]
        following = [each.role for each in changed if isinstance(each.role, Following)]
        if leading:
            self._writer.register(leading)
        # Another leader replaces the registration by its own.
        gone = [each.key for each in following if each.key in led_before and each.leader < 0]
        if gone:
            self._writer.unregister(gone)
        copied = [each for each in following if each.leader >= 0]
        # Called even with nothing to copy, so that fetchers without partitions end.
        if not self.leaving and (copied or any(each.key not in led_before for each in changed)):
            self._fetchers.follow(copied)
        for leadership in leading:
            subscriber = self.subscribers.get(leadership.key.topic)
            # A leader that goes on in another epoch keeps its state in memory.
            if subscriber is not None and leadership.key not in led_before:
                subscriber.lead(leadership)
        for role in following:
            self._notify_left(role.key)

    def _notify_left(self, key: TopicPartition) -> None:
        subscriber = self.subscribers.get(key.topic)
        if subscriber is not None:
            subscriber.leave(key)

    def stop_replica(
        self, request: StopReplicaRequest, connection: int = ONLY_CONNECTION
    ) -> StopReplicaResponse:
        """Carry out a StopReplica. Unknown replicas count as stopped.

        Args:
            request: of a controller.
            connection: see `ControllerFence.check`.
        """
        answers = []
        # The first check may read ZooKeeper, which the second one, under the lock, never does.
        code = self._refusal.of(request, connection)
        if code:
            return StopReplicaResponse(code)
        with self._lock:
            # A later controller may have been obeyed while this request waited.
            code = self._refusal.of(request, connection)
            if code:
                return StopReplicaResponse(code)
            for topic, number in request.replicas():
                key = TopicPartition(topic, number)
                found = self._stop(key, delete=request.delete_partitions)
                answers.append(PartitionError(topic, number, found))
                self._runtime.sleep(0)
        return StopReplicaResponse(ErrorCode.NONE, answers)

    def _stop(self, key: TopicPartition, *, delete: bool) -> ErrorCode:
        self._fetchers.forget([key])
        partition = self.partitions.get(key)
        if partition is not None:
            if partition.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if partition.leading is not None:
                self._writer.unregister([key])
            partition.stop()
            self._notify_left(key)
        if not delete:
            return ErrorCode.NONE
        if partition is not None:
            partition.mark_deleted()
            del self.partitions[key]
        return self._opening.delete(key)

    def stop_all(self) -> None:
        """End all roles."""
        partitions = list(self.partitions.values())
        self._fetchers.forget([each.key for each in partitions])
        for partition in partitions:
            partition.stop()

    def mark_offline(self) -> None:
        """Mark the partitions of failed data directories offline."""
        lost = [
            each
            for each in self.partitions.values()
            if not each.offline and each.has_log and each.log.offline is not None
        ]
        self._fetchers.forget([each.key for each in lost])
        for partition in lost:
            partition.mark_offline()
            self._notify_left(partition.key)
        self._writer.unregister(each.key for each in lost)
        self._writer.report_failed_directory()
        logger.error("partitions offline count=%d: a data directory failed", len(lost))
