"""What this broker writes to ZooKeeper as a leader: ISRs, registrations, and notes of both.

Invariant: one task writes all of it, so that each write goes out under the version that the one
before it left; what fails is tried again as long as this broker leads. No request waits for what is
done here: a changed ISR counts when it is written, and not before.
"""

import logging
from collections.abc import Callable, Iterable

from zkbroker.errors import RegistryError
from zkbroker.registry.notifications import note_isr_changes, note_log_dir_failure
from zkbroker.registry.partition_states import Key, LeaderAndIsr, PartitionStates
from zkbroker.replica.partition import Partition
from zkbroker.runtime import Runtime, Task
from zkbroker.zookeeper import ZkSession

logger = logging.getLogger(__name__)

RETRY_MS = 500
TICK_MS = 2_500
QUIET_MS = 5_000
LONGEST_MS = 60_000


class LeaderStateWriter:
    """The task that writes.

    Args:
        session: a started session.
        states: what writes decisions.
        broker_id: this broker.
        runtime: for its task.
        clock_ms: monotonic milliseconds.
        written: called when everything that was to be written is; it must not wait.
    """

    def __init__(
        self,
        session: ZkSession,
        states: PartitionStates,
        broker_id: int,
        *,
        runtime: Runtime,
        clock_ms: Callable[[], int],
        written: Callable[[], object] = lambda: None,
    ) -> None:
        self._written = written
        self._session = session
        self._states = states
        self._broker_id = broker_id
        self._runtime = runtime
        self._clock_ms = clock_ms
        self._changed = runtime.event()
        self._proposing: dict[Key, Partition] = {}
        self._leading: dict[Key, Partition] = {}
        self._leaving: set[Key] = set()
        self._noted: set[Key] = set()
        self._noted_ms = clock_ms()
        self._last_change_ms = clock_ms()
        self._failed_directory = False
        self._stopping = False
        self._task: Task | None = None

    def start(self) -> None:
        self._task = self._runtime.spawn(self._run, name="leader-states")

    def close(self, timeout_s: float) -> None:
        """End the task; what is not written stays so."""
        self._stopping = True
        self._changed.set()
        if self._task is not None:
            self._task.join(timeout_s)

    def propose(self, partition: Partition) -> None:
        """Have a partition's proposed ISR written."""
        self._proposing[_key(partition)] = partition
        self._changed.set()

    def register(self, partitions: Iterable[Partition]) -> None:
        """Have this broker registered as the leader of partitions."""
        for partition in partitions:
            key = _key(partition)
            self._leading[key] = partition
            self._leaving.discard(key)
        self._changed.set()

    def unregister(self, keys: Iterable[Key]) -> None:
        """Have the registrations removed of what this broker leads no longer."""
        for key in keys:
            self._leading.pop(key, None)
            self._proposing.pop(key, None)
            self._leaving.add(key)
        self._changed.set()

    def note_failed_directory(self) -> None:
        """Have the controller told that a data directory failed."""
        self._failed_directory = True
        self._changed.set()

    @property
    def idle(self) -> bool:
        """Whether everything is written but the notes."""
        return not (self._proposing or self._leading or self._leaving or self._failed_directory)

    def _run(self) -> None:
        wait_ms: int | None = None
        told = ""
        while True:
            self._changed.wait(None if wait_ms is None else wait_ms / 1000)
            self._changed.clear()
            if self._stopping:
                return
            try:
                self.write()
            except RegistryError as error:
                # ZooKeeper may be away for hours: the same is not told again until it went well.
                level = logging.DEBUG if str(error) == told else logging.WARNING
                logger.log(level, "leader state not written, tried again error=%s", error)
                told = str(error)
                wait_ms = RETRY_MS
                # What else is to be written meanwhile does not make it tried sooner.
                self._session.wait_connected(RETRY_MS / 1000)
            except Exception:
                # This task must not end: no ISR would ever change again.
                logger.exception("leader state not written, tried again")
                wait_ms = RETRY_MS
            else:
                told = ""
                wait_ms = TICK_MS if self._noted else None

    def write(self) -> None:
        """Write what there is.

        Raises:
            RegistryError: ZooKeeper does not answer; what is not written is kept.
        """
        if self._failed_directory:
            note_log_dir_failure(self._session, self._broker_id)
            self._failed_directory = False
        self._write_isrs()
        self._write_registrations()
        if self._leaving:
            leaving = set(self._leaving)
            self._states.unregister_leader(leaving)
            self._leaving -= leaving
        self._write_notes()
        if self.idle:
            self._written()

    def _write_isrs(self) -> None:
        asked: dict[Key, LeaderAndIsr] = {}
        for key, partition in list(self._proposing.items()):
            change = partition.proposed_isr()
            if change is None:
                del self._proposing[key]
            else:
                asked[key] = change
        if not asked:
            return
        partitions = {key: self._proposing[key] for key in asked}
        for key, update in self._states.update_isr(asked).items():
            partition = partitions[key]
            changed = partition.resolve_isr(asked[key], update)
            if partition.proposed_isr() is None:
                self._proposing.pop(key, None)
            if changed:
                self._noted.add(key)
                self._last_change_ms = self._clock_ms()
                logger.info(
                    "isr changed partition=%s-%d isr=%s version=%d",
                    *key,
                    list(partition.isr.members),
                    partition.isr.zk_version,
                )
            elif not update.written:
                logger.warning(
                    "isr change refused partition=%s-%d wanted=%s stored=%s",
                    *key,
                    list(asked[key].isr),
                    update.state,
                )

    def _write_registrations(self) -> None:
        leading = dict(self._leading)
        told = {
            key: decision
            for key, partition in leading.items()
            if (decision := partition.decision()) is not None
        }
        if told:
            for key in sorted(self._states.register_leader(told)):
                logger.info("leader not registered partition=%s-%d: decided anew", *key)
        for key, partition in leading.items():
            decision = partition.decision()
            # One that was told anew meanwhile is registered anew.
            if decision is None or told.get(key) == decision:
                self._leading.pop(key, None)

    def _write_notes(self) -> None:
        now = self._clock_ms()
        quiet = now - self._last_change_ms >= QUIET_MS
        if self._noted and (quiet or now - self._noted_ms >= LONGEST_MS):
            noted = set(self._noted)
            note_isr_changes(self._session, noted)
            self._noted -= noted
            self._noted_ms = now


def _key(partition: Partition) -> Key:
    return partition.key.topic, partition.key.partition
