"""Begins the roles that a controller decided, and has fetchers, subscribers and ZooKeeper follow.

Invariant: a role begins for a newer leader epoch only. What fails for one partition is its code
alone; one whose log cannot be used is offline. Writes to ZooKeeper are left to `LeaderStateWriter`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.replica.following import Following
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.log_opening import LogOpening
from zkbroker.replica.partition import Partition
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import in_parts, side_by_side

logger = logging.getLogger(__name__)

ROLES_AT_ONCE = 8
"""Partitions whose role is changed at the same time: what they write is on disk in one flush."""

ANNOUNCED_AT_ONCE = 200
"""Partitions whose new leaders are registered in ZooKeeper while the roles of the next begin."""

Change = tuple[Partition, LeaderAndIsrPartition]
Codes = dict[tuple[str, int], ErrorCode]
TopicConfigs = Mapping[str, Mapping[str, str]]


class ReplicaFetchers(Protocol):
    """Copies the partitions that other brokers lead."""

    def follow(self, roles: Iterable[Following]) -> None:
        """Copy the partitions of these roles from the leaders that they name."""

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        """Copy these no more; what is under way meets a role that is over. Does not wait."""


class NoFetchers:
    """Copies nothing: of partitions with one replica there is nothing to copy."""

    def follow(self, roles: Iterable[Following]) -> None: ...

    def forget(self, keys: Iterable[TopicPartition]) -> None: ...


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Args: lead is called when this broker begins to lead a partition; leave when that ends."""

    lead: Callable[[Leadership], object]
    leave: Callable[[TopicPartition], object]


class RoleChanges:
    """Changes the roles of partitions.

    Args:
        broker_id: this broker.
        opening: opens the logs.
        writer: writes the state of leaders to ZooKeeper.
        fetchers: copy what is led elsewhere.
        runtime: for tasks.
    """

    def __init__(
        self,
        broker_id: int,
        opening: LogOpening,
        writer: LeaderStateWriter,
        fetchers: ReplicaFetchers,
        *,
        runtime: Runtime,
    ) -> None:
        self._broker_id = broker_id
        self._opening = opening
        self._writer = writer
        self._fetchers = fetchers
        self._runtime = runtime
        self.partitions: dict[tuple[str, int], Partition] = {}
        """Every partition of which this broker has a replica."""
        self.subscribers: dict[str, Subscriber] = {}
        """By topic."""
        self.leaving = False
        """Whether this broker is about to stop, and begins to copy nothing more."""

    def apply(self, changes: Iterable[Change], configs: TopicConfigs) -> Codes:
        """Begin the roles that a controller decided; returns what became of each.

        Args:
            changes: partitions, new ones among them, each with its state.
            configs: of topics, for logs that are made.
        """
        codes: Codes = {}
        soon: list[Change] = []
        later: list[Change] = []
        following: list[Change] = []
        for partition, state in changes:
            code = codes[partition.key] = self._check(partition, state)
            if code:
                # A controller that takes over repeats what was decided before.
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
                # Those that follow with the log that they have need no disk, and are copied on
                # before the others are done: what they do not fetch is not acknowledged.
                (soon if partition.has_log else following).append((partition, state))
        later += following
        led_before = {partition.key for partition, _ in (*soon, *later) if partition.leading}
        for group in filter(None, (soon, *in_parts(later, ANNOUNCED_AT_ONCE))):
            codes |= self._begin(group, configs, led_before)
        return codes

    def _check(self, partition: Partition, state: LeaderAndIsrPartition) -> ErrorCode:
        if state.leader_epoch <= partition.leader_epoch:
            # A controller that heard of a failed directory repeats its decision, to learn by this
            # code which replicas are gone with it.
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
                # One that leads has a log, which was not lost.
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
        # Each makes a log, or writes its epoch to the disk.
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
            "partition offline until this broker is started again partition=%s error=%s",
            partition.key,
            error,
        )
        self.partitions[partition.key] = partition
        partition.mark_offline()
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _announce(self, changed: list[Partition], led_before: Set[TopicPartition]) -> None:
        """Have fetchers, subscribers and ZooKeeper follow the new roles."""
        # Of these some may be offline by now: others write to the disk meanwhile.
        leading = [each.leading for each in changed if each.leading is not None]
        following = [each.role for each in changed if isinstance(each.role, Following)]
        if leading:
            self._writer.register(leading)
        # Another leader replaces the registration itself.
        gone = [each.key for each in following if each.key in led_before and each.leader < 0]
        if gone:
            self._writer.unregister(gone)
        copied = [each for each in following if each.leader >= 0]
        # Without any to copy, too: fetchers that have nothing left end then.
        if not self.leaving and (copied or any(each.key not in led_before for each in changed)):
            self._fetchers.follow(copied)
        for leadership in leading:
            subscriber = self.subscribers.get(leadership.key.topic)
            # A leader that goes on in another epoch keeps what it has in memory.
            if subscriber is not None and leadership.key not in led_before:
                subscriber.lead(leadership)
        for role in following:
            self._left(role.key)

    def _left(self, key: TopicPartition) -> None:
        subscriber = self.subscribers.get(key.topic)
        if subscriber is not None:
            subscriber.leave(key)

    def stop(self, key: TopicPartition, *, delete: bool) -> ErrorCode:
        """Stop a replica, and delete its log if asked to. Unknown replicas count as stopped."""
        self._fetchers.forget([key])
        partition = self.partitions.get(key)
        if partition is not None:
            if partition.offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            if partition.leading is not None:
                self._writer.unregister([key])
            partition.stop()
            self._left(key)
        if not delete:
            return ErrorCode.NONE
        if partition is not None:
            partition.mark_deleted()
            del self.partitions[key]
        return self._opening.delete(key)

    def stop_all(self) -> None:
        """Neither lead nor follow anything."""
        partitions = list(self.partitions.values())
        self._fetchers.forget([each.key for each in partitions])
        for partition in partitions:
            partition.stop()

    def mark_offline(self) -> None:
        """Mark the partitions offline whose data directory failed."""
        lost = [
            each
            for each in self.partitions.values()
            if not each.offline and each.has_log and each.log.offline is not None
        ]
        self._fetchers.forget([each.key for each in lost])
        for partition in lost:
            partition.mark_offline()
            self._left(partition.key)
        self._writer.unregister(each.key for each in lost)
        self._writer.report_failed_directory()
        logger.error("partitions offline count=%d: a data directory failed", len(lost))
