"""The group coordinator of a broker: its settings, and the partitions that it coordinates."""

from functools import partial

from zkbroker.broker.dispatcher import Handler
from zkbroker.broker.handlers.groups import GroupHandlers
from zkbroker.broker.handlers.offsets import OffsetsHandlers
from zkbroker.broker.handlers.produce import Verify
from zkbroker.broker.services import BrokerServices
from zkbroker.coordinator.groups import CoordinatorSettings, GroupCoordinator, StoreSettings
from zkbroker.log import TopicPartition
from zkbroker.protocol import ApiKey
from zkbroker.protocol.offsets_topic import OFFSETS_TOPIC
from zkbroker.records import Codec
from zkbroker.registry.topics_watch import TopicsView
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.stored_log import StoredLog


class Coordination:
    """Ties a `GroupCoordinator` to the partitions of `__consumer_offsets` that are led here."""

    def __init__(self, services: BrokerServices) -> None:
        config = services.config
        self._services = services
        self._deleting: frozenset[str] = frozenset()
        self.coordinator = GroupCoordinator(
            CoordinatorSettings(
                min_session_ms=config.group_min_session_timeout_ms,
                max_session_ms=config.group_max_session_timeout_ms,
                initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
                metadata_bytes=config.group_metadata_max_bytes,
                max_group_size=config.group_max_size,
                retention_ms=config.offsets_retention_ms,
                maintenance_ms=config.offsets_retention_check_ms,
                store=StoreSettings(
                    codec=Codec(config.offsets_topic_codec),
                    wait_s=config.offsets_commit_timeout_ms / 1000,
                ),
            ),
            runtime=services.runtime,
            partition_count=partial(
                services.partition_count, OFFSETS_TOPIC, config.offsets_topic_partitions
            ),
            led_here=partial(services.led_here, OFFSETS_TOPIC),
        )

    def handlers(self, verify: Verify) -> dict[ApiKey, Handler]:
        """The handlers of the APIs that groups use."""
        groups = GroupHandlers(self._services, self.coordinator)
        offsets = OffsetsHandlers(self._services, self.coordinator, verify)
        return {
            ApiKey.OFFSET_COMMIT: offsets.offset_commit,
            ApiKey.TXN_OFFSET_COMMIT: offsets.txn_offset_commit,
            ApiKey.OFFSET_FETCH: offsets.offset_fetch,
            ApiKey.FIND_COORDINATOR: groups.find_coordinator,
            ApiKey.JOIN_GROUP: groups.join_group,
            ApiKey.SYNC_GROUP: groups.sync_group,
            ApiKey.HEARTBEAT: groups.heartbeat,
            ApiKey.LEAVE_GROUP: groups.leave_group,
            ApiKey.DESCRIBE_GROUPS: groups.describe_groups,
            ApiKey.LIST_GROUPS: groups.list_groups,
            ApiKey.DELETE_GROUPS: groups.delete_groups,
        }

    def start(self) -> None:
        """Begin to coordinate the groups of the partitions that are led here."""
        self.coordinator.start()
        self._services.replicas.subscribe(OFFSETS_TOPIC, self._lead, self._leave)

    def _lead(self, leadership: Leadership) -> None:
        log = StoredLog(leadership, self._services.runtime)
        self.coordinator.host(leadership.key.partition, log)

    def _leave(self, key: TopicPartition) -> None:
        self.coordinator.release(key.partition)

    def close(self) -> None:
        """Stop coordinating: members must find the next coordinator."""
        self.coordinator.close()

    def topics_changed(self, topics: TopicsView) -> None:
        """Forget the offsets of topics whose deletion was requested."""
        for topic in topics.deleting - self._deleting:
            self._services.runtime.spawn(
                self.coordinator.forget_topic, topic, name=f"forget-{topic}"
            )
        self._deleting = topics.deleting
