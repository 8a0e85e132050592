"""All partitions of which this broker has a replica, as the controller decides.

    LeaderAndIsr --> become leader | become follower        StopReplica --> stopped, deleted
    data directory failed --> offline, and the controller learns of it

Invariants: roles change by the controller's requests alone, one request at a time, and in none of
them for an epoch that is not newer, or for a controller that a later one has replaced by then. A
request is answered when it is carried out in memory and in the logs; what of it goes to ZooKeeper
is written behind it, by `LeaderStateWriter`. No lock is held over a network or ZooKeeper call.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Set

from zkbroker.errors import ErrorCode, RegistryError
from zkbroker.log import LogManager, TopicPartition
from zkbroker.protocol.messages import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from zkbroker.protocol.messages.leader_and_isr import PartitionError
from zkbroker.registry.partition_states import Key
from zkbroker.replica.fencing import ONLY_CONNECTION, ControllerFence, ControllerRefusal
from zkbroker.replica.leadership import LeaderSettings, Leadership
from zkbroker.replica.log_opening import LogOpening
from zkbroker.replica.partition import Partition
from zkbroker.replica.role_changes import (
    Codes,
    NoFetchers,
    ReplicaFetchers,
    RoleChanges,
    Subscriber,
)
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.runtime import OwnerLoop, Runtime

logger = logging.getLogger(__name__)

TopicSettings = Callable[[Set[str]], Mapping[str, Mapping[str, str]]]
"""Returns the settings of topics, of those whose settings are known."""


class ReplicaManager:
    """The partitions of a broker.

    Args:
        broker_id: this broker.
        logs: the started log manager.
        writer: writes the state of leaders to ZooKeeper.
        fence: which controller is obeyed; shared with what handles UpdateMetadata.
        topic_settings: asked before logs of topics are made whose settings are not known.
        runtime: for tasks, locks and its clock.
        lag_ms: `replica.lag.time.max.ms`.
        fetchers: copy what is led elsewhere.
        open_limit: how many logs can be held open.
        session_over: returns whether this broker's ZooKeeper session must have ended.
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
        lag_ms: int = 10_000,
        fetchers: ReplicaFetchers | None = None,
        open_limit: Callable[[], int] = lambda: 2**31,
        session_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.broker_id = broker_id
        self._logs = logs
        self._writer = writer
        self._fence = fence
        self._refusal = ControllerRefusal(fence)
        self._under_way = 0
        self._carried_out_of = -1
        self._topic_settings = topic_settings
        self._runtime = runtime
        self._leader_settings = LeaderSettings(
            lag_ms=lag_ms, isr_proposed=writer.propose, session_over=session_over
        )
        self._opening = LogOpening(broker_id, logs, open_limit)
        self._roles = RoleChanges(
            broker_id, self._opening, writer, fetchers or NoFetchers(), runtime=runtime
        )
        self.partitions = self._roles.partitions
        """By topic and number: those for which the controller decided."""
        self._lock = runtime.lock()
        self._decided = runtime.event()
        self._listeners: list[Callable[[], object]] = []
        self._stopping = False
        self._check_every_ms = lag_ms / 2
        self._check_due_ms = 0.0
        self._loop = OwnerLoop(runtime, self._check, name="replica-manager", logger=logger)
        self._failed_directories = False
        logs.use_high_watermarks(self.high_watermarks)
        logs.on_offline(self._directory_failed)

    # -- looking up

    @property
    def caught_up(self) -> bool:
        """Whether the first LeaderAndIsr of the obeyed controller is carried out, and each after.

        A controller sends a broker one for all of its replicas when the one or the other is new.
        """
        return not self._under_way and self._carried_out_of >= self._fence.controller_epoch

    def refuse_to_lead(self, last: Iterable[Key], others: Iterable[Key] = ()) -> None:
        """Lead none of these whose logs were lost, until they were copied from another replica.

        Args:
            last: those of whose ISR this broker is the last member.
            others: those of whose ISR others are members.
        """
        self._opening.refuse_to_lead(last, others)

    def get(self, topic: str, number: int) -> Partition | None:
        """Return a partition, None where the controller decided nothing for it."""
        return self.partitions.get((topic, number))

    def all(self) -> list[Partition]:
        """Return every partition."""
        return list(self.partitions.values())

    def led(self) -> list[Leadership]:
        """Return the leaderships of this broker."""
        return [each.leading for each in self.all() if each.leading is not None]

    def wait_for(self, key: tuple[str, int], timeout_s: float) -> Partition | None:
        """Wait until the controller has decided for a partition; None when it did not in time."""
        until_ms = self._runtime.clock_ms() + timeout_s * 1000
        while (found := self.partitions.get(key)) is None and not self._stopping:
            left_s = (until_ms - self._runtime.clock_ms()) / 1000
            if left_s <= 0:
                break
            self._decided.wait(left_s)
        return found

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return every high watermark that is known, to be checkpointed."""
        return self._opening.checkpointed | {
            each.key: each.high_watermark for each in self.all() if each.has_log
        }

    def subscribe(
        self,
        topic: str,
        lead: Callable[[Leadership], object],
        leave: Callable[[TopicPartition], object],
    ) -> None:
        """Call back when this broker begins to lead partitions of a topic, and when it ends.

        Those that it leads already are reported at once. The functions must not wait.
        """
        self._roles.subscribers[topic] = Subscriber(lead, leave)
        for leadership in self.led():
            if leadership.key.topic == topic:
                lead(leadership)

    def on_change(self, function: Callable[[], object]) -> Callable[[], None]:
        """Call back after each LeaderAndIsr; the function must not wait.

        Returns:
            a function that ends it.
        """
        self._listeners.append(function)
        return lambda: self._listeners.remove(function)

    # -- life cycle

    def start(self) -> None:
        """Begin to check ISRs and data directories."""
        self._check_due_ms = self._runtime.clock_ms() + self._check_every_ms
        self._loop.start(self._check_every_ms / 1000)

    def leave(self) -> None:
        """Begin to copy nothing more: this broker is about to hand over what it leads, and to go.

        Its successors would let it into their ISRs for a moment, and then wait for it.
        """
        self._roles.leaving = True

    def close(self, timeout_s: float) -> None:
        """Neither lead nor follow anything; requests that wait are let go."""
        self._stopping = True
        self._loop.close(timeout_s)
        self._roles.stop_all()

    def _check(self) -> float:
        """Do what is due; return after how many seconds ISRs are to be looked at."""
        if self._failed_directories:
            self._failed_directories = False
            self._roles.mark_offline()
        clock_ms = self._runtime.clock_ms
        if clock_ms() >= self._check_due_ms:
            self._check_due_ms = clock_ms() + self._check_every_ms
            for leadership in self.led():
                leadership.check_isr()
                self._runtime.sleep(0)
        return max(0.0, (self._check_due_ms - clock_ms()) / 1000)

    def _directory_failed(self, path: str, lost: list[TopicPartition], reason: str) -> None:
        # Called where the error was met, perhaps in another thread.
        self._failed_directories = True
        self._loop.set()

    # -- the controller's requests

    def leader_and_isr(
        self, request: LeaderAndIsrRequest, connection: int = ONLY_CONNECTION
    ) -> LeaderAndIsrResponse:
        """Carry out a LeaderAndIsr; never raises for what is wrong with it.

        Args:
            request: of a controller.
            connection: see `ControllerFence.check`.
        """
        self._under_way += 1
        try:
            return self._leader_and_isr(request, connection)
        finally:
            self._under_way -= 1
            for function in tuple(self._listeners):
                function()

    def _leader_and_isr(
        self, request: LeaderAndIsrRequest, connection: int
    ) -> LeaderAndIsrResponse:
        states = list(request.partitions())
        code = self._refusal.of(request, connection)
        codes: Codes = {}
        if not code:
            valid, codes = self._refusal.validated(request.controller_id, states, self.partitions)
            found = [(TopicPartition(topic, state.partition), state) for topic, state in valid]
            # The logs of partitions that are known are there, or will not be.
            new = {key for key, _ in found if key not in self.partitions}
            configs = self._configs_of({key for key in new if self._logs.get(key) is None})
            with self._lock:
                # A later one may have been obeyed while this one waited.
                code = self._refusal.of(request, connection)
                if not code:
                    codes |= self._roles.apply(
                        [(self._partition(key), state) for key, state in found], configs
                    )
        if code:
            codes = {(topic, state.partition): code for topic, state in states}
        else:
            self._carried_out_of = max(self._carried_out_of, request.controller_epoch)
            self._decided.set()
            self._decided.clear()
        return LeaderAndIsrResponse(
            code, [PartitionError(topic, number, each) for (topic, number), each in codes.items()]
        )

    def _configs_of(self, keys: Set[TopicPartition]) -> Mapping[str, Mapping[str, str]]:
        if not keys:
            return {}
        topics = {key.topic for key in keys}
        try:
            return self._topic_settings(topics)
        except RegistryError as error:
            # Logs are made with what is known; the settings come when ZooKeeper is back.
            logger.warning("topic settings not read topics=%d error=%s", len(topics), error)
            return {}

    def _partition(self, key: TopicPartition) -> Partition:
        return self.partitions.get(key) or Partition(
            key, self.broker_id, runtime=self._runtime, settings=self._leader_settings
        )

    def stop_replica(
        self, request: StopReplicaRequest, connection: int = ONLY_CONNECTION
    ) -> StopReplicaResponse:
        """Carry out a StopReplica. Unknown replicas count as stopped.

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
            for topic, number in request.replicas():
                key = TopicPartition(topic, number)
                found = self._roles.stop(key, delete=request.delete_partitions)
                answers.append(PartitionError(topic, number, found))
                self._runtime.sleep(0)
        return StopReplicaResponse(ErrorCode.NONE, answers)

    def session_renewed(self) -> None:
        """Register again what is led here: the registrations went with the old session."""
        self._writer.register(self.led())
