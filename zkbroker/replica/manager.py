"""All partitions of which this broker has a replica, as the controller says.

    LeaderAndIsr --> become leader | become follower        StopReplica --> stopped, deleted
    data directory failed --> offline, and the controller is told

Invariants: roles change by the controller's requests alone, one request at a time, and in none of
them for an epoch that is not newer, or for a controller that a later one has replaced by then. A
request is answered when it is carried out in memory and in the logs; what of it goes to ZooKeeper
is written behind it, by `LeaderStateWriter`. No lock is held over a network or ZooKeeper call.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from zkbroker.errors import ErrorCode, ProtocolError, RegistryError, StorageError, ZkbrokerError
from zkbroker.log import LogManager, TopicPartition
from zkbroker.protocol.messages import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition, PartitionError
from zkbroker.registry.partition_states import Key
from zkbroker.replica.fencing import ONLY_CONNECTION, ControllerFence
from zkbroker.replica.log_opening import LogOpening
from zkbroker.replica.partition import Partition, Role
from zkbroker.replica.refusal import ControllerRefusal
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.runtime import OwnerLoop, Runtime
from zkbroker.runtime.pacing import side_by_side

logger = logging.getLogger(__name__)

ROLES_AT_ONCE = 8
"""Partitions whose role is changed at the same time: what they write is on disk in one flush."""

TopicSettings = Callable[[Set[str]], Mapping[str, Mapping[str, str]]]
"""Returns the settings of topics, of those whose settings it can tell."""


class ReplicaFetchers(Protocol):
    """Who copies the partitions that other brokers lead."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        """Copy these from the leaders that they name, and from no others."""

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """Copy these no more; what is under way meets the partition's new role. Does not wait."""


class NoFetchers:
    """Copies nothing: of partitions with one replica there is nothing to copy."""

    def follow(self, partitions: Iterable[Partition]) -> None: ...

    def forget(self, keys: Iterable[TopicPartition]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """Args: lag_ms is `replica.lag.time.max.ms`."""

    lag_ms: int = 10_000


@dataclass(frozen=True, slots=True)
class _Subscriber:
    lead: Callable[[Partition], object]
    leave: Callable[[Partition], object]


class ReplicaManager:
    """The partitions of a broker.

    Args:
        broker_id: this broker.
        logs: the started log manager.
        writer: writes what leaders say to ZooKeeper.
        fence: which controller is obeyed; shared with who takes UpdateMetadata.
        topic_settings: asked before logs of topics are made whose settings are not known.
        runtime: for tasks and locks.
        clock_ms: monotonic milliseconds.
        settings: see there.
        fetchers: who copies what is led elsewhere.
        open_limit: how many logs can be held open.
        session_over: tells whether this broker's ZooKeeper session must have ended.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        writer: LeaderStateWriter,
        fence: ControllerFence,
        topic_settings: TopicSettings,
        *,
        runtime: Runtime,
        clock_ms: Callable[[], int],
        settings: ReplicaSettings | None = None,
        fetchers: ReplicaFetchers | None = None,
        open_limit: Callable[[], int] = lambda: 2**31,
        session_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._session_over = session_over
        self.broker_id = broker_id
        self._logs = logs
        self._writer = writer
        self._refusal = ControllerRefusal(fence)
        self._topic_settings = topic_settings
        self._runtime = runtime
        self._clock_ms = clock_ms
        self._settings = settings or ReplicaSettings()
        self.fetchers: ReplicaFetchers = fetchers or NoFetchers()
        self._partitions: dict[Key, Partition] = {}
        self._opening = LogOpening(broker_id, logs, open_limit)
        self._lock = runtime.lock()
        self._subscribers: dict[str, _Subscriber] = {}
        self._told = runtime.event()
        self._when_told: list[Callable[[], object]] = []
        self._stopping = False
        self._leaving = False
        self._check_every_s = self._settings.lag_ms / 2000
        self._check_due_ms = 0.0
        self._loop = OwnerLoop(runtime, self._check, name="replica-manager", logger=logger)
        self._failed_directories = False
        logs.use_high_watermarks(self.high_watermarks)
        logs.on_offline(self._directory_failed)

    # -- looking up

    def refuse_to_lead(self, last: Iterable[Key], others: Iterable[Key] = ()) -> None:
        """Lead none of these whose logs were lost, until they were copied from another replica.

        Args:
            last: those that nobody else is in sync for.
            others: those that others are in sync for.
        """
        self._opening.refuse_to_lead(last, others)

    def get(self, topic: str, number: int) -> Partition | None:
        """Return a partition, None where the controller told nothing of it."""
        return self._partitions.get((topic, number))

    def all(self) -> list[Partition]:
        """Return every partition."""
        return list(self._partitions.values())

    def led(self) -> list[Partition]:
        """Return the partitions that this broker leads."""
        return [each for each in self.all() if each.is_leader]

    def wait_told(self, key: tuple[str, int], timeout_s: float) -> Partition | None:
        """Wait until the controller has told of a partition; None when it did not in time."""
        until = self._clock_ms() + timeout_s * 1000
        while (found := self.get(*key)) is None and not self._stopping:
            left_s = (until - self._clock_ms()) / 1000
            if left_s <= 0:
                break
            self._told.wait(left_s)
        return found

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return every high watermark that is known, to be checkpointed."""
        return self._opening.checkpointed | {
            each.key: each.high_watermark for each in self.all() if each.has_log
        }

    def subscribe(
        self,
        topic: str,
        lead: Callable[[Partition], object],
        leave: Callable[[Partition], object],
    ) -> None:
        """Call back when this broker begins to lead partitions of a topic, and when it ends.

        Those that it leads already are reported at once. The functions must not wait.
        """
        self._subscribers[topic] = _Subscriber(lead, leave)
        for partition in self.led():
            if partition.key.topic == topic:
                lead(partition)

    def on_told(self, function: Callable[[], object]) -> None:
        """Call back whenever a LeaderAndIsr was carried out. The function must not wait."""
        self._when_told.append(function)

    # -- life cycle

    def start(self) -> None:
        """Begin to check ISRs and data directories."""
        self._check_due_ms = self._clock_ms() + self._check_every_s * 1000
        self._loop.start(self._check_every_s)

    def leave(self) -> None:
        """Begin to copy nothing more: this broker is about to hand over what it leads, and to go.

        It would be let into the ISRs of its successors for a moment, who then wait for it.
        """
        self._leaving = True

    def close(self, timeout_s: float) -> None:
        """Lead and follow nothing any more; whoever waits is let go."""
        self._stopping = True
        self._loop.close(timeout_s)
        partitions = self.all()
        self.fetchers.forget([each.key for each in partitions])
        for partition in partitions:
            partition.stop()

    def _check(self) -> float:
        """Do what is due; return after how many seconds ISRs are to be looked at."""
        if self._failed_directories:
            self._failed_directories = False
            self._take_offline()
        now_ms = self._clock_ms()
        if now_ms >= self._check_due_ms:
            self._check_due_ms = now_ms + self._check_every_s * 1000
            for partition in self.led():
                partition.check_isr()
                self._runtime.sleep(0)
        return max(0.0, (self._check_due_ms - self._clock_ms()) / 1000)

    # -- the controller's requests

    def leader_and_isr(
        self, request: LeaderAndIsrRequest, connection: int = ONLY_CONNECTION
    ) -> LeaderAndIsrResponse:
        """Carry out a LeaderAndIsr; never raises for what is wrong with it.

        Args:
            request: of a controller.
            connection: see `ControllerFence.check`.
        """
        told = list(request.partitions())
        code = self._refusal.of(request, connection)
        if code:
            return _refused(told, code)
        sound, codes = self._refusal.parted(request.controller_id, told)
        missing = {
            topic
            for topic, each in sound
            if self._logs.get(TopicPartition(topic, each.partition)) is None
        }
        settings = self._settings_of(missing) if missing else {}
        with self._lock:
            # A later one may have been obeyed while this one waited.
            code = self._refusal.of(request, connection)
            if code:
                return _refused(told, code)
            codes |= self._apply(sound, settings)
        self._told.set()
        self._told.clear()
        for function in self._when_told:
            function()
        return LeaderAndIsrResponse(
            ErrorCode.NONE,
            [PartitionError(topic, number, code) for (topic, number), code in codes.items()],
        )

    def _settings_of(self, topics: Set[str]) -> Mapping[str, Mapping[str, str]]:
        try:
            return self._topic_settings(topics)
        except RegistryError as error:
            # Logs are made with what is known; the settings come when ZooKeeper is back.
            logger.warning("topic settings not read topics=%d error=%s", len(topics), error)
            return {}

    def _apply(
        self,
        told: list[tuple[str, LeaderAndIsrPartition]],
        settings: Mapping[str, Mapping[str, str]],
    ) -> dict[tuple[str, int], ErrorCode]:
        codes: dict[tuple[str, int], ErrorCode] = {}
        leading: list[tuple[Partition, LeaderAndIsrPartition]] = []
        following: list[tuple[Partition, LeaderAndIsrPartition]] = []
        for topic, state in told:
            key = TopicPartition(topic, state.partition)
            partition = self._partitions.get(key) or self._new_partition(key)
            code = ErrorCode.NONE
            if state.leader_epoch <= partition.leader_epoch:
                # A controller that heard of a failed directory repeats what holds, to learn by
                # this code which replicas are gone with it.
                code = (
                    ErrorCode.KAFKA_STORAGE_ERROR
                    if partition.role is Role.OFFLINE
                    else ErrorCode.STALE_CONTROLLER_EPOCH
                )
            elif self.broker_id not in state.replicas:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                group = leading if state.leader == self.broker_id else following
                group.append((partition, state))
            if code:
                logger.info(
                    "LeaderAndIsr ignored partition=%s epoch=%d own=%d code=%s",
                    key,
                    state.leader_epoch,
                    partition.leader_epoch,
                    code.name,
                )
            codes[topic, state.partition] = code
        led_before = {
            partition.key for partition, _ in (*leading, *following) if partition.is_leader
        }
        # Those that follow with the log that they have need no disk, and are copied on before the
        # others are done: what they do not fetch is not acknowledged.
        soon = [item for item in following if item[0].has_log]
        later = [item for item in following if not item[0].has_log]
        for changes in filter(None, (soon, [*leading, *later])):
            codes |= self._carry_out(changes, settings, led_before)
        return codes

    def _carry_out(
        self,
        changes: list[tuple[Partition, LeaderAndIsrPartition]],
        settings: Mapping[str, Mapping[str, str]],
        led_before: Set[TopicPartition],
    ) -> dict[tuple[str, int], ErrorCode]:
        """Change roles, then have everybody follow them; returns what could not be changed."""
        codes: dict[tuple[str, int], ErrorCode] = {}
        carried_out: set[TopicPartition] = set()

        def carry_out(item: tuple[Partition, LeaderAndIsrPartition]) -> None:
            partition, state = item
            try:
                self._opening.open(partition, state, settings)
                self._change_role(partition, state)
            except ZkbrokerError as error:
                code = self._role_not_changed(partition, error)
                codes[partition.key.topic, partition.key.partition] = code
            else:
                self._partitions[partition.key] = partition
                carried_out.add(partition.key)
            self._runtime.sleep(0)

        self.fetchers.forget([partition.key for partition, _ in changes])
        # Each makes a log, or writes its epoch to the disk.
        side_by_side(self._runtime, changes, carry_out, ROLES_AT_ONCE, "role-change")
        self._tell([each for each, _ in changes if each.key in carried_out], led_before)
        return codes

    def _new_partition(self, key: TopicPartition) -> Partition:
        return Partition(
            key,
            self.broker_id,
            runtime=self._runtime,
            clock_ms=self._clock_ms,
            lag_ms=self._settings.lag_ms,
            isr_proposed=self._writer.propose,
            session_over=self._session_over,
        )

    def _change_role(self, partition: Partition, state: LeaderAndIsrPartition) -> None:
        if state.leader == self.broker_id:
            partition.become_leader(state)
        else:
            partition.become_follower(state)
        logger.info(
            "partition=%s role=%s leader=%d epoch=%d isr=%s log_end_offset=%d",
            partition.key,
            partition.role.value,
            state.leader,
            state.leader_epoch,
            state.isr,
            partition.log_end_offset,
        )

    def _role_not_changed(self, partition: Partition, error: ZkbrokerError) -> ErrorCode:
        if isinstance(error, ProtocolError):
            logger.error("role not changed partition=%s error=%s", partition.key, error)
            return error.code
        logger.error(
            "partition offline until this broker is started again partition=%s error=%s",
            partition.key,
            error,
        )
        self._partitions[partition.key] = partition
        partition.mark_offline()
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _tell(self, changed: list[Partition], led_before: Set[TopicPartition]) -> None:
        """Have fetchers, subscribers and ZooKeeper follow the new roles."""
        leading = [each for each in changed if each.is_leader]
        following = [each for each in changed if not each.is_leader]
        self._writer.register(leading)
        ended = [each for each in following if each.key in led_before]
        # Another leader replaces the registration itself.
        self._writer.unregister(each.key for each in ended if each.leader < 0)
        if not self._leaving:
            self.fetchers.follow([each for each in following if each.leader >= 0])
        for partition in leading:
            subscriber = self._subscribers.get(partition.key.topic)
            # A leader that goes on in another epoch keeps what it has in memory.
            if subscriber is not None and partition.key not in led_before:
                subscriber.lead(partition)
        for partition in following:
            self._left(partition)

    def _left(self, partition: Partition) -> None:
        subscriber = self._subscribers.get(partition.key.topic)
        if subscriber is not None:
            subscriber.leave(partition)

    def stop_replica(
        self, request: StopReplicaRequest, connection: int = ONLY_CONNECTION
    ) -> StopReplicaResponse:
        """Carry out a StopReplica; what is not here is stopped already.

        Args:
            request: of a controller.
            connection: see `ControllerFence.check`.
        """
        answers = []
        with self._lock:
            # Not before: a later one may be obeyed while this one waits.
            code = self._refusal.of(request, connection)
            if code:
                return StopReplicaResponse(code)
            keys = [TopicPartition(*each) for each in request.replicas()]
            self.fetchers.forget(keys)
            for key in keys:
                code = self._stop(key, delete=request.delete_partitions)
                answers.append(PartitionError(key.topic, key.partition, code))
                self._runtime.sleep(0)
        return StopReplicaResponse(ErrorCode.NONE, answers)

    def _stop(self, key: TopicPartition, *, delete: bool) -> ErrorCode:
        partition = self._partitions.get(key)
        if partition is not None:
            if partition.role is Role.OFFLINE:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if partition.is_leader:
                self._writer.unregister([key])
            partition.stop()
            self._left(partition)
        if not delete:
            return ErrorCode.NONE
        if partition is not None:
            partition.mark_deleted()
            del self._partitions[key]
        self._opening.forget(key)
        try:
            self._logs.delete(key)
        except StorageError as error:
            logger.warning("log not deleted partition=%s error=%s", key, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    # -- ZooKeeper and disks

    def session_renewed(self) -> None:
        """Register again what is led here: the registrations went with the old session."""
        self._writer.register(self.led())

    def _directory_failed(self, path: str, lost: list[TopicPartition], reason: str) -> None:
        # Called where the error was met, perhaps in another thread.
        self._failed_directories = True
        self._loop.set()

    def _take_offline(self) -> None:
        lost = [
            each
            for each in self.all()
            if each.role is not Role.OFFLINE and each.has_log and each.log.offline is not None
        ]
        self.fetchers.forget([each.key for each in lost])
        for partition in lost:
            partition.mark_offline()
            self._left(partition)
        self._writer.unregister(each.key for each in lost)
        self._writer.note_failed_directory()
        logger.error("partitions offline count=%d: a data directory failed", len(lost))


def _refused(
    told: Iterable[tuple[str, LeaderAndIsrPartition]], code: ErrorCode
) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(
        code, [PartitionError(topic, each.partition, code) for topic, each in told]
    )
