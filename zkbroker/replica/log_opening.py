"""Opens or creates the log of a partition of which this broker has a replica.

Invariants: an empty log never replaces one that was lost with its data directory while this broker
could be elected with it, from the ISR or by an unclean election. No more logs are open than the
limit of open files allows.
"""

import logging
from collections.abc import Callable, Iterable, Mapping

from zkbroker.errors import ConfigError, ErrorCode, StorageError
from zkbroker.log import LogManager, TopicPartition
from zkbroker.protocol.messages.leader_and_isr import LeaderAndIsrPartition
from zkbroker.registry.partition_states import Key
from zkbroker.replica.partition import Partition
from zkbroker.replica.role import NO_LEADER

logger = logging.getLogger(__name__)


class LogOpening:
    """Opens logs, several at a time.

    Args:
        broker_id: this broker.
        logs: the started log manager.
        limit: how many logs can be held open.
    """

    def __init__(self, broker_id: int, logs: LogManager, limit: Callable[[], int]) -> None:
        self._broker_id = broker_id
        self._logs = logs
        self._limit = limit
        self._opening = 0
        """Logs that are being created."""
        self._lost: set[Key] = set()
        self._others: set[Key] = set()
        self.checkpointed = logs.checkpointed_high_watermarks()
        """High watermarks of the last run, for logs that are to be opened."""

    def refuse_to_lead(self, last: Iterable[Key], others: Iterable[Key] = ()) -> None:
        """Do not create the lost logs of these partitions while this broker could lead them.

        Args:
            last: partitions in whose ISR this broker is the last member.
            others: partitions with other replicas in sync, so that only an unclean election makes
                this broker their leader.
        """
        self._lost = set(last)
        self._others = set(others)

    def has_log(self, key: TopicPartition) -> bool:
        """Whether there is a log of a partition, so that none is created."""
        return self._logs.get(key) is not None

    def delete(self, key: TopicPartition) -> ErrorCode:
        """Delete a log and all that is known of it; returns an error code, or NONE."""
        self.checkpointed.pop(key, None)
        self._lost.discard(key)
        self._others.discard(key)
        try:
            self._logs.delete(key)
        except StorageError as error:
            logger.warning("log not deleted partition=%s error=%s", key, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def open(
        self,
        partition: Partition,
        state: LeaderAndIsrPartition,
        settings: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Give a partition its log, if it has none yet.

        Args:
            partition: the partition.
            state: the controller's decision for it.
            settings: of topics, for a log that is created; they may change meanwhile.

        Raises:
            StorageError: the log cannot be opened, or must not be created.
        """
        if partition.offline:
            raise StorageError(f"the data directory of {partition.key} is offline")
        key = partition.key
        self._refuse_lost(key, state)
        if not partition.has_log:
            limit = self._limit() - self._opening
            if self._logs.get(key) is None and len(self._logs.logs()) >= limit:
                raise StorageError(
                    f"{limit} partitions are open, as many as the limit of open files allows: "
                    "raise it (ulimit -n), or move partitions to other brokers"
                )
            self._opening += 1
            try:
                given = settings.get(key.topic)
                log = self._logs.get_or_create(key, given, is_new=state.is_new)
                present = settings.get(key.topic)
                if present is not None and present != given:
                    self._catch_up(key.topic, present)
            finally:
                self._opening -= 1
            partition.open(log, self.checkpointed.get(key, 0))

    def _catch_up(self, topic: str, settings: Mapping[str, str]) -> None:
        """Apply settings that changed in the middle of a log's creation, and did not find it."""
        try:
            self._logs.update_topic_config(topic, settings)
        except ConfigError as error:
            logger.warning("topic configuration not applied topic=%s error=%s", topic, error)

    def _refuse_lost(self, key: TopicPartition, state: LeaderAndIsrPartition) -> None:
        leads = state.leader == self._broker_id
        if key in self._lost:
            alone = leads or state.leader == NO_LEADER
            if alone or self._broker_id in state.isr:
                # It is not created either while no replica leads or while this one counts as in
                # sync: this broker could be elected after the next start.
                raise StorageError(
                    f"the log of {key} was lost with its data directory, and "
                    f"{'no other replica leads' if alone else 'it still counts as in sync'}: "
                    "an empty log would replace acknowledged messages. "
                    "Bring the disk back and start the broker again; or let another replica "
                    "lead by unclean.leader.election.enable=true of the topic; or make the "
                    f"empty directory {key} in log.dirs to begin without the data"
                )
        elif key in self._others and leads:
            raise StorageError(
                f"the log of {key} was lost with its data directory, and an unclean election made "
                "this broker its leader: other replicas may have the acknowledged messages. Start "
                f"one of them; or, to begin without the data, make the directory {key} in log.dirs "
                "and restart this broker"
            )
        self._lost.discard(key)
        if state.leader != NO_LEADER:
            self._others.discard(key)
