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
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.partition import NO_LEADER, Partition, Role
from zkbroker.replica.soundness import check_decision
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.runtime import Runtime, Task
from zkbroker.runtime.pacing import side_by_side

logger = logging.getLogger(__name__)

ROLES_AT_ONCE = 8
"""Partitions whose role is changed at the same time: what they write is on disk in one flush."""

TopicSettings = Callable[[Set[str]], Mapping[str, Mapping[str, str]]]
"""Returns the settings of topics, of those whose settings it can tell."""


class Fetchers(Protocol):
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
        fetchers: Fetchers | None = None,
        open_limit: Callable[[], int] = lambda: 2**31,
        session_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._session_over = session_over
        self._open_limit = open_limit
        self.broker_id = broker_id
        self._logs = logs
        self._writer = writer
        self._fence = fence
        self._topic_settings = topic_settings
        self._runtime = runtime
        self._clock_ms = clock_ms
        self._settings = settings or ReplicaSettings()
        self.fetchers: Fetchers = fetchers or NoFetchers()
        self._partitions: dict[Key, Partition] = {}
        self._checkpointed = logs.checkpointed_high_watermarks()
        self._lock = runtime.lock()
        self._subscribers: dict[str, _Subscriber] = {}
        self._told = runtime.event()
        self._when_told: list[Callable[[], object]] = []
        self._stopping = False
        self._leaving = False
        self._refused = ""
        self._wake = runtime.event()
        self._task: Task | None = None
        self._failed_directories = False
        self._opening = 0
        """Logs that are being made."""
        self._lost: set[Key] = set()
        logs.use_high_watermarks(self.high_watermarks)
        logs.on_offline(self._directory_failed)

    # -- looking up

    def refuse_to_lead(self, keys: Iterable[Key]) -> None:
        """Lead none of these whose logs were lost, until they were copied from another replica."""
        self._lost = set(keys)

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
        return self._checkpointed | {
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
        self._task = self._runtime.spawn(self._run, name="replica-manager")

    def leave(self) -> None:
        """Begin to copy nothing more: this broker is about to hand over what it leads, and to go.

        It would be let into the ISRs of its successors for a moment, who then wait for it.
        """
        self._leaving = True

    def close(self, timeout_s: float) -> None:
        """Lead and follow nothing any more; whoever waits is let go."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            self._task.join(timeout_s)
        partitions = self.all()
        self.fetchers.forget([each.key for each in partitions])
        for partition in partitions:
            partition.stop()

    def _run(self) -> None:
        every_s = self._settings.lag_ms / 2000
        due = self._clock_ms() + every_s * 1000
        while not self._stopping:
            self._wake.wait(max(0.0, (due - self._clock_ms()) / 1000))
            self._wake.clear()
            if self._failed_directories:
                self._failed_directories = False
                self._take_offline()
            if self._clock_ms() >= due:
                due = self._clock_ms() + every_s * 1000
                for partition in self.led():
                    partition.check_isr()
                    self._runtime.sleep(0)

    # -- the controller's requests

    def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Carry out a LeaderAndIsr; never raises for what is wrong with it."""
        told = list(request.partitions())
        code = self._refusal(request)
        if code:
            return _refused(told, code)
        sound, codes = self._sound(request.controller_id, told)
        missing = {
            topic
            for topic, each in sound
            if self._logs.get(TopicPartition(topic, each.partition)) is None
        }
        settings = self._settings_of(missing) if missing else {}
        with self._lock:
            # A later controller may have been obeyed while this one waited.
            code = self._refusal(request)
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

    def _refusal(self, request: LeaderAndIsrRequest | StopReplicaRequest) -> ErrorCode:
        """Why a request is not to be obeyed; NONE where it is."""
        try:
            self._fence.check(request.controller_id, request.controller_epoch, request.broker_epoch)
        except ProtocolError as error:
            name = type(request).__name__.removesuffix("Request")
            self._tell_refused(name, request.controller_id, error)
            return error.code
        return ErrorCode.NONE

    def _sound(
        self, controller_id: int, told: list[tuple[str, LeaderAndIsrPartition]]
    ) -> tuple[list[tuple[str, LeaderAndIsrPartition]], dict[tuple[str, int], ErrorCode]]:
        """Part what a controller can say from nonsense, which is refused and named in one line.

        A name that no directory can have would be taken for a failure of the disk.
        """
        sound: list[tuple[str, LeaderAndIsrPartition]] = []
        codes: dict[tuple[str, int], ErrorCode] = {}
        why = ""
        for topic, state in told:
            try:
                check_decision(topic, state)
            except ZkbrokerError as error:
                codes[topic, state.partition] = ErrorCode.INVALID_REQUEST
                why = why or str(error)
            else:
                sound.append((topic, state))
        if codes:
            self._tell_refused(
                "LeaderAndIsr", controller_id, f"partitions={len(codes)} first={why}"
            )
        return sound, codes

    def _tell_refused(self, api: str, controller_id: int, reason: object) -> None:
        """Warn of a refused request once; who repeats it does not fill the log."""
        said = f"{api} {controller_id} {reason}"
        again, self._refused = said == self._refused, said
        logger.log(
            logging.DEBUG if again else logging.WARNING,
            "%s refused controller=%d %s",
            api,
            controller_id,
            reason,
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
        self.fetchers.forget([partition.key for partition, _ in (*leading, *following)])
        led_before = {
            partition.key for partition, _ in (*leading, *following) if partition.is_leader
        }
        carried_out: set[TopicPartition] = set()

        def carry_out(item: tuple[Partition, LeaderAndIsrPartition]) -> None:
            partition, state = item
            try:
                self._open(partition, state, settings)
                self._change_role(partition, state)
            except ZkbrokerError as error:
                code = self._role_not_changed(partition, error)
                codes[partition.key.topic, partition.key.partition] = code
            else:
                self._partitions[partition.key] = partition
                carried_out.add(partition.key)
            self._runtime.sleep(0)

        # Each makes a log, or writes its epoch to the disk.
        changed = [*leading, *following]
        side_by_side(self._runtime, changed, carry_out, ROLES_AT_ONCE, "role-change")
        self._tell([each for each, _ in changed if each.key in carried_out], led_before)
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

    def _open(
        self,
        partition: Partition,
        state: LeaderAndIsrPartition,
        settings: Mapping[str, Mapping[str, str]],
    ) -> None:
        if partition.role is Role.OFFLINE:
            raise StorageError(f"the data directory of {partition.key} is offline")
        if not partition.has_log:
            key = partition.key
            if key in self._lost:
                alone = state.leader in (NO_LEADER, self.broker_id)
                if alone or self.broker_id in state.isr:
                    # Nor is it made while nobody leads, or while it counts as in sync: it would be
                    # there at the next start, and could be elected.
                    raise StorageError(
                        f"the log of {key} was lost with its data directory, and "
                        f"{'no other replica leads' if alone else 'it still counts as in sync'}: "
                        "an empty log would take the place of what was acknowledged. "
                        "Bring the disk back and start the broker again; or let another replica "
                        "lead by unclean.leader.election.enable=true of the topic; or make the "
                        f"empty directory {key} in log.dirs to begin without the data"
                    )
                self._lost.discard(key)
            limit = self._open_limit() - self._opening
            if self._logs.get(key) is None and len(self._logs.logs()) >= limit:
                raise StorageError(
                    f"{limit} partitions are open, as many as the limit of open files allows: "
                    "raise it (ulimit -n), or move partitions to other brokers"
                )
            self._opening += 1
            try:
                log = self._logs.get_or_create(key, settings.get(key.topic), is_new=state.is_new)
            finally:
                self._opening -= 1
            partition.open(log, self._checkpointed.get(key, 0))

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

    def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Carry out a StopReplica; what is not here is stopped already."""
        answers = []
        with self._lock:
            # Not before: a later controller may be obeyed while this one waits.
            code = self._refusal(request)
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
        self._checkpointed.pop(key, None)
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
        self._wake.set()

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
