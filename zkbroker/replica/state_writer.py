"""Writes to ZooKeeper the ISRs and registrations of the partitions that are led here.

Invariant: one task does all the writes, so that each uses the version that the previous one left. A
failed write is retried as long as this broker leads. No request waits for these writes: a changed
ISR counts once it is written, and not before. A finished write removes the entry of its own
leadership only: another leadership of the same partition may have begun, and have made its own
entry, while ZooKeeper was answering.
"""

import logging
from collections.abc import Callable, Iterable

from zkbroker.errors import RegistryError
from zkbroker.registry.notifications import note_isr_changes, note_log_dir_failure
from zkbroker.registry.partition_states import Key, LeaderAndIsr, PartitionStates
from zkbroker.replica.leadership import Leadership
from zkbroker.runtime import OwnerLoop, Runtime
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
        states: writes decisions and registrations.
        broker_id: this broker.
        runtime: for its task, and its clock.
        written: called when every pending write is done; it must not wait.
    """

    def __init__(
        self,
        session: ZkSession,
        states: PartitionStates,
        broker_id: int,
        *,
        runtime: Runtime,
        written: Callable[[], object] = lambda: None,
    ) -> None:
        self._written = written
        self._session = session
        self._states = states
        self._broker_id = broker_id
        self._clock_ms = runtime.clock_ms
        self._loop = OwnerLoop(
            runtime,
            self._step,
            name="leader-states",
            logger=logger,
            retry_s=RETRY_MS / 1000,
            foreseen=(RegistryError,),
            ready=session.wait_connected,
        )
        self._proposing: dict[Key, Leadership] = {}
        self._leading: dict[Key, Leadership] = {}
        self._leaving: set[Key] = set()
        self._noted: set[Key] = set()
        self._noted_ms = self._last_change_ms = runtime.clock_ms()
        self._failed_directories = 0

    def start(self) -> None:
        self._loop.start()

    def close(self, timeout_s: float) -> None:
        """End the task; pending writes are dropped."""
        self._loop.close(timeout_s)

    def propose(self, leadership: Leadership) -> None:
        """Queue the proposed ISR of a leadership."""
        self._proposing[leadership.key] = leadership
        self._loop.set()

    def register(self, leaderships: Iterable[Leadership]) -> None:
        """Queue this broker's registration as the leader of partitions."""
        for leadership in leaderships:
            self._leading[leadership.key] = leadership
            self._leaving.discard(leadership.key)
        self._loop.set()

    def unregister(self, keys: Iterable[Key]) -> None:
        """Queue the removal of registrations: this broker no longer leads these partitions."""
        for key in keys:
            self._leading.pop(key, None)
            self._proposing.pop(key, None)
            self._leaving.add(key)
        self._loop.set()

    def report_failed_directory(self) -> None:
        """Queue a note to the controller that a data directory failed."""
        self._failed_directories += 1
        self._loop.set()

    @property
    def idle(self) -> bool:
        """Whether no write is pending except notes of ISR changes."""
        return not (self._proposing or self._leading or self._leaving or self._failed_directories)

    def _step(self) -> float | None:
        self.write()
        return TICK_MS / 1000 if self._noted else None

    def write(self) -> None:
        """Do the pending writes.

        Raises:
            RegistryError: ZooKeeper does not answer; the rest is kept for the next attempt.
        """
        if self._failed_directories:
            noted = self._failed_directories
            note_log_dir_failure(self._session, self._broker_id)
            # Another directory may have failed while ZooKeeper was answering.
            self._failed_directories -= noted
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
        leaderships = dict(self._proposing)
        for key, leadership in leaderships.items():
            change = leadership.proposed_isr()
            if change is None:
                _cross_off(self._proposing, key, leadership)
            else:
                asked[key] = change
        if not asked:
            return
        for key, update in self._states.update_isr(asked).items():
            leadership = leaderships[key]
            changed = leadership.resolve_isr(asked[key], update)
            if leadership.proposed_isr() is None:
                _cross_off(self._proposing, key, leadership)
            if changed:
                self._noted.add(key)
                self._last_change_ms = self._clock_ms()
                logger.info(
                    "isr changed partition=%s-%d isr=%s version=%d",
                    *key,
                    list(leadership.isr.members),
                    leadership.isr.zk_version,
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
        decisions = {
            key: decision
            for key, leadership in leading.items()
            if (decision := leadership.decision()) is not None
        }
        if decisions:
            for key in sorted(self._states.register_leader(decisions)):
                logger.info("leader not registered partition=%s-%d: decided again", *key)
        for key, leadership in leading.items():
            decision = leadership.decision()
            # A leadership with a newer epoch since is registered again.
            if decision is None or decisions.get(key) == decision:
                _cross_off(self._leading, key, leadership)

    def _write_notes(self) -> None:
        now = self._clock_ms()
        quiet = now - self._last_change_ms >= QUIET_MS
        if self._noted and (quiet or now - self._noted_ms >= LONGEST_MS):
            noted = set(self._noted)
            note_isr_changes(self._session, noted)
            self._noted -= noted
            self._noted_ms = now


def _cross_off(wanted: dict[Key, Leadership], key: Key, leadership: Leadership) -> None:
    """Remove the entry of a leadership, unless a later one has replaced it."""
    if wanted.get(key) is leadership:
        del wanted[key]
