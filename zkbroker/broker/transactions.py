"""The transaction coordinator of a broker: its settings, and the partitions that it coordinates."""

import logging
from collections import deque
from collections.abc import Sequence
from functools import partial

from zkbroker.broker.connections import BrokerConnections
from zkbroker.broker.dispatcher import Handler
from zkbroker.broker.handlers.transactions import MarkerHandler, TransactionHandlers
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.verification import TransactionVerifier
from zkbroker.broker.view import NO_LEADER
from zkbroker.coordinator.groups import GroupCoordinator
from zkbroker.coordinator.transactions import TransactionCoordinator, TransactionSettings
from zkbroker.coordinator.transactions.markers import Codes, MarkerSender, TransactionMarkers
from zkbroker.coordinator.transactions.transaction import by_topic
from zkbroker.errors import InvalidTopic, RegistryError
from zkbroker.log import TopicPartition
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from zkbroker.protocol.messages.write_txn_markers import TxnMarker
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC
from zkbroker.registry.producer_ids import ProducerIds
from zkbroker.registry.state_form import StateForm
from zkbroker.registry.topic_rules import check_topic_name
from zkbroker.registry.topics import assignment as read_assignment
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.stored_log import StoredLog

logger = logging.getLogger(__name__)

_VERSION = 0


class TransactionCoordination:
    """Ties a `TransactionCoordinator` to the partitions of `__transaction_state` that are led here.

    `groups` gets the markers in `__consumer_offsets`.
    """

    def __init__(self, services: BrokerServices, groups: GroupCoordinator) -> None:
        config = services.config
        self._services = services
        self._producer_ids = ProducerIds(services.session, services.broker_id)
        timeout_ms = config.replica_socket_timeout_ms
        self._connections = BrokerConnections(services.dialing, services.view, "txn-", timeout_ms)
        # Half of the sender's wait: it must get the answer for the partitions that have the marker.
        self._write_markers = MarkerHandler(services, groups, timeout_ms / 2000)
        self.coordinator = TransactionCoordinator(
            TransactionSettings(
                max_timeout_ms=config.transaction_max_timeout_ms,
                metadata_bytes=config.transaction_metadata_bytes,
                abort_check_ms=config.transaction_abort_check_ms,
                expiration_ms=config.log_manager.producer_id_expiration_ms,
                expiration_check_ms=config.transaction_expiration_check_ms,
                wait_s=config.offsets_commit_timeout_ms / 1000,
            ),
            runtime=services.runtime,
            partition_count=partial(
                services.partition_count, TRANSACTION_TOPIC, config.transaction_topic_partitions
            ),
            led_here=partial(services.led_here, TRANSACTION_TOPIC),
            new_producer_id=self._producer_ids.next_id,
            markers=MarkerSender(self._leader_of, self._send_markers, runtime=services.runtime),
        )
        self.verifier = TransactionVerifier(
            self.coordinator,
            services.view,
            lambda broker, request: self._connections.send("verify", broker, request, _VERSION),
            runtime=services.runtime,
            enabled=config.transaction_verification
            and config.partition_state_znodes != StateForm.PERSISTENT.value,
        )

    def handlers(self) -> dict[ApiKey, Handler]:
        """The handlers of the transaction APIs, except TxnOffsetCommit."""
        handlers = TransactionHandlers(self._services, self.coordinator, self._producer_ids)
        return {
            ApiKey.INIT_PRODUCER_ID: handlers.init_producer_id,
            ApiKey.ADD_PARTITIONS_TO_TXN: handlers.add_partitions,
            ApiKey.ADD_OFFSETS_TO_TXN: handlers.add_offsets,
            ApiKey.END_TXN: handlers.end,
            ApiKey.WRITE_TXN_MARKERS: self._write_markers,
            ApiKey.VERIFY_TRANSACTION: handlers.verify,
        }

    def start(self) -> None:
        """Begin to coordinate the transactional ids of the partitions that are led here."""
        self.coordinator.start()
        self._services.replicas.subscribe(TRANSACTION_TOPIC, self._lead, self._leave)

    def close(self) -> None:
        """Stop coordinating and verifying."""
        self.coordinator.close()
        self.verifier.close()
        self._connections.close()

    def _lead(self, leadership: Leadership) -> None:
        log = StoredLog(leadership, self._services.runtime)
        self.coordinator.host(leadership.key.partition, leadership, log)

    def _leave(self, key: TopicPartition) -> None:
        self.coordinator.release(key.partition)

    # -- markers

    def _leader_of(self, topic: str, number: int) -> int | None:
        """Return the leader of a partition, -1 without one, None for an unknown partition."""
        services = self._services
        # A deletion may wait for a broker that is away: its topic's transactions end meanwhile.
        if number not in services.view.topics.assignments.get(topic, ()):
            try:
                check_topic_name(topic)
            except InvalidTopic as error:
                logger.warning("no markers for an invalid topic: %s", error)
                return None
            # Another broker may know of a new topic before this one: read ZooKeeper.
            try:
                if number not in (read_assignment(services.session, topic) or ()):
                    return None
            except RegistryError as error:
                logger.info("markers wait topic=%s error=%s", topic, error)
            return NO_LEADER
        return services.view.leader(topic, number)[0]

    def _send_markers(self, broker: int, markers: Sequence[TransactionMarkers]) -> list[Codes]:
        request = WriteTxnMarkersRequest(
            [
                TxnMarker(
                    each.producer_id,
                    each.producer_epoch,
                    each.commit,
                    by_topic(each.partitions),
                    each.coordinator_epoch,
                )
                for each in markers
            ]
        )
        response: WriteTxnMarkersResponse
        if broker == self._services.broker_id:
            response = self._write_markers.write(request)
        else:
            response = self._connections.send("markers", broker, request, _VERSION)
        return _codes_of(markers, response)


def _codes_of(
    markers: Sequence[TransactionMarkers], response: WriteTxnMarkersResponse
) -> list[Codes]:
    """Return the answer for each marker, empty if there is none.

    Genuine brokers answer once for each producer id, in the order of a hash map (KafkaApis); this
    broker answers once for each marker, in order.
    """
    found: dict[int, deque[Codes]] = {}
    for result in response.markers:
        codes = {
            (topic.topic, each.partition): each.error_code
            for topic in result.topics
            for each in topic.partitions
        }
        found.setdefault(result.producer_id, deque()).append(codes)
    answers: list[Codes] = []
    for marker in markers:
        of_producer = found.get(marker.producer_id) or deque([{}])
        answers.append(of_producer.popleft() if len(of_producer) > 1 else of_producer[0])
    return answers
