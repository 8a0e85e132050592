"""A partition of which this broker has a replica: its identity, its log and its present role.

    the controller decides -- leader --> Leadership -- another leader, or none --> Following
    Following -- leader --> Leadership       data directory failed --> Offline
    stopped, or not decided yet --> Following without a leader

Invariants: roles begin and end here, one at a time, under the replica's lock; leader epochs only
grow. A role begins only while the data directory is online: if the directory fails while a role
begins, the partition ends up offline, whichever comes first. No lock is held over a network or
ZooKeeper call.
"""

from dataclasses import replace

from zkbroker.errors import (
    NotLeaderForPartition,
    StorageError,
    UnknownTopicOrPartition,
    ZkbrokerError,
)
from zkbroker.log import Log, TopicPartition
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.replica.delayed import Waiters
from zkbroker.replica.following import Following
from zkbroker.replica.leadership import LeaderSettings, Leadership
from zkbroker.replica.role import (
    NO_EPOCH,
    NO_LEADER,
    NO_VERSION,
    Deleted,
    LocalReplica,
    Offline,
    Role,
    other_epoch,
)
from zkbroker.runtime import Runtime


class Partition:
    """One partition's replica on this broker."""

    def __init__(
        self, key: TopicPartition, broker_id: int, *, runtime: Runtime, settings: LeaderSettings
    ) -> None:
        self.key = key
        self.waiters = Waiters()
        self._settings = settings
        self._replica = LocalReplica(key, broker_id, runtime, runtime.lock(), self.waiters)
        self._state = LeaderAndIsrPartition(
            topic=key.topic,
            partition=key.partition,
            controller_epoch=0,
            leader=NO_LEADER,
            leader_epoch=NO_EPOCH,
            isr=[],
            zk_version=NO_VERSION,
            replicas=[],
        )
        """The controller's last decision."""
        self.role: Role = Following(self._replica, self._state, 0)
        self.leading: Leadership | None = None
        """The role while it is a leadership."""

    def __repr__(self) -> str:
        return f"<Partition {self.role!r}>"

    # -- state

    @property
    def log(self) -> Log:
        """Its log, for the rooms below and the tools that work on files.

        Raises:
            StorageError: its data directory failed, or it was never opened.
        """
        if self._replica.log is None or self.offline:
            raise StorageError(f"the log of {self.key} is offline")
        return self._replica.log

    @property
    def has_log(self) -> bool:
        return self._replica.log is not None

    @property
    def offline(self) -> bool:
        """Whether its data directory failed."""
        return isinstance(self.role, Offline)

    @property
    def leader(self) -> int:
        """The broker that leads; negative where none does."""
        return self.role.leader

    @property
    def leader_epoch(self) -> int:
        return self.role.leader_epoch

    @property
    def replicas(self) -> tuple[int, ...]:
        """The brokers to which it is assigned."""
        return self.role.replicas

    @property
    def high_watermark(self) -> int:
        """End of what consumers may read."""
        return self.role.high_watermark

    @property
    def log_start_offset(self) -> int:
        return 0 if self._replica.log is None else self._replica.log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return 0 if self._replica.log is None else self._replica.log.log_end_offset

    @property
    def isr_changes(self) -> tuple[int, int]:
        """How often the ISR shrank and grew while this broker led."""
        return self._replica.shrinks, self._replica.expands

    # -- roles

    def open(self, log: Log, high_watermark: int) -> None:
        """Use a log.

        Args:
            log: the partition's log.
            high_watermark: from the checkpoint, 0 for none.
        """
        self._replica.log = log
        known = min(high_watermark, log.log_end_offset)
        self.role.high_watermark = max(known, log.log_start_offset)

    def leadership(self, current_leader_epoch: int = NO_EPOCH) -> Leadership:
        """Return the present role if it is a leadership.

        Args:
            current_leader_epoch: the requester's idea of the current epoch; -1 for no check.

        Raises:
            UnknownTopicOrPartition: it was deleted.
            StorageError: its data directory failed.
            ProtocolError: the requester's epoch is older (74) or newer (75).
            NotLeaderForPartition: another broker leads it, or none.
        """
        leading = self.leading
        if leading is not None and current_leader_epoch in (NO_EPOCH, leading.leader_epoch):
            return leading
        raise self._refusal(current_leader_epoch)

    def readable(self, current_leader_epoch: int = NO_EPOCH) -> Role:
        """Return the present role if its log can be compared with those of other replicas.

        Raises:
            ZkbrokerError: see `leadership`; or there is no replica here.
        """
        if (
            isinstance(self.role, Leadership | Following)
            and not self.offline
            and current_leader_epoch in (NO_EPOCH, self.leader_epoch)
        ):
            return self.role
        raise self._refusal(current_leader_epoch)

    def _refusal(self, current_leader_epoch: int) -> ZkbrokerError:
        """Return why this broker does not lead, or does not lead under an epoch."""
        if isinstance(self.role, Deleted):
            return UnknownTopicOrPartition(f"{self.key} was deleted")
        if self.offline:
            return StorageError(f"the data directory of {self.key} is offline")
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            return other_epoch(self.key, current_leader_epoch, self.leader_epoch)
        if self.leading is not None:
            # Earlier appends may have been truncated while another broker led.
            return NotLeaderForPartition(f"{self.key} was led by another broker meanwhile")
        return NotLeaderForPartition(f"{self.key} is not led by this broker")

    def become_leader(self, state: LeaderAndIsrPartition) -> bool:
        """Lead from now on; False when this broker already led, in an earlier epoch.

        Raises:
            StorageError: the log cannot take the epoch.
            ProtocolError: the log has a later epoch, and epochs may not fall (74).
        """
        with self._replica.lock:
            may_fall = self._settings.epochs_may_fall
            self.log.writer.begin_epoch(state.leader_epoch, may_fall=may_fall)
            leading, self._state = self.leading, state
            if leading is None:
                mark = self.high_watermark
                self._begin(Leadership(self._replica, state, mark, self._settings))
            else:
                leading.begin_epoch(state)
        waiters = self.waiters
        if waiters.appends or waiters.marks or waiters.log_starts:
            waiters.wake()
        return leading is None

    def become_follower(self, state: LeaderAndIsrPartition) -> None:
        """Follow another broker, or none if the leader is unknown.

        Raises:
            StorageError: its data directory failed.
        """
        with self._replica.lock:
            reason = self.log.offline
            if reason is not None:
                raise StorageError(reason)
            self._follow(state)
        self.waiters.wake()

    def stop(self) -> None:
        """Follow no leader until the controller decides again."""
        with self._replica.lock:
            if not isinstance(self.role, Offline | Deleted):
                self._follow(replace(self._state, leader=NO_LEADER))
        self.waiters.wake()

    def mark_deleted(self) -> None:
        """Refuse every request: the log is being deleted."""
        with self._replica.lock:
            self._begin(Deleted(self._replica, self._state, self.high_watermark))
        self.waiters.wake()

    def mark_offline(self) -> None:
        """Refuse every request: the data directory failed."""
        with self._replica.lock:
            self._begin(Offline(self._replica, self._state, self.high_watermark))
        self.waiters.wake()

    def _follow(self, state: LeaderAndIsrPartition) -> None:
        before, self._state = self.role, state
        copied_from = before.copied_from if isinstance(before, Following) else NO_LEADER
        self._begin(Following(self._replica, state, before.high_watermark, copied_from))

    def _begin(self, role: Role) -> None:
        self.role.end(self._refusal)
        self.role = role
        self.leading = role if isinstance(role, Leadership) else None
