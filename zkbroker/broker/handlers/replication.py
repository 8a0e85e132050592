"""Requests between brokers: those of the controller, and OffsetForLeaderEpoch."""

from collections.abc import Callable
from dataclasses import dataclass

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code
from zkbroker.broker.services import BrokerServices, Patience
from zkbroker.controller import Controller
from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ElectPreferredLeadersRequest,
    ElectPreferredLeadersResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from zkbroker.protocol.messages.controlled_shutdown import RemainingPartition
from zkbroker.protocol.messages.elect_preferred_leaders import ElectedPartition, ElectedTopic
from zkbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from zkbroker.replica.fencing import NO_BROKER_EPOCH, ControllerFence, states_in

_SAYS_UNKNOWN_SINCE = 2


@dataclass(frozen=True, eq=False)
class ReplicationHandlers:
    """Handles LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown, OffsetForLeaderEpoch.

    Args:
        services: of the broker.
        fence: shared by the three requests of controllers.
        controller: this broker's own, which may be the elected one.
        broker_epoch_is: called with the broker epoch of a request; reads this broker's registration
            from ZooKeeper if the epoch is later than the known one.
    """

    services: BrokerServices
    fence: ControllerFence
    controller: Controller
    broker_epoch_is: Callable[[int], object]

    def leader_and_isr(
        self, request: LeaderAndIsrRequest, context: RequestContext
    ) -> LeaderAndIsrResponse:
        """Lead and follow as the controller has decided."""
        self._learn(request.broker_epoch)
        return self.services.replicas.roles.leader_and_isr(request, context.session.number)

    def stop_replica(
        self, request: StopReplicaRequest, context: RequestContext
    ) -> StopReplicaResponse:
        """Stop replicas, and delete their logs if asked to."""
        self._learn(request.broker_epoch)
        answer = self.services.replicas.roles.stop_replica(request, context.session.number)
        if request.delete_partitions:
            left = {each.key.topic for each in self.services.replicas.all()}
            for topic in {topic for topic, _ in request.replicas()} - left:
                self.services.metrics.forget_topic(topic)
        return answer

    def update_metadata(
        self, request: UpdateMetadataRequest, context: RequestContext
    ) -> UpdateMetadataResponse:
        """Update the view with the controller's state of the cluster."""
        self._learn(request.broker_epoch)
        services = self.services
        code = services.view.update(request, self.fence, context.session.number)
        if code == ErrorCode.NONE:
            for topic, state in states_in(request):
                if state.leader == services.broker_id:
                    led = services.replicas.get(topic, state.partition)
                    if led is not None and led.leading is not None:
                        led.leading.record_stored_version(state.leader_epoch, state.zk_version)
        return UpdateMetadataResponse(code)

    def _learn(self, broker_epoch: int) -> None:
        if broker_epoch != NO_BROKER_EPOCH:
            self.broker_epoch_is(broker_epoch)

    def controlled_shutdown(
        self, request: ControlledShutdownRequest, context: RequestContext
    ) -> ControlledShutdownResponse:
        """Move the leaders of a broker that is about to stop, as the controller."""
        try:
            remaining = self.controller.controlled_shutdown(request.broker_id, request.broker_epoch)
        except ProtocolError as error:
            code = error.code
            if (
                code is ErrorCode.BROKER_NOT_AVAILABLE
                and context.api_version >= _SAYS_UNKNOWN_SINCE
            ):
                code = ErrorCode.UNKNOWN_SERVER_ERROR  # as genuine brokers
            return ControlledShutdownResponse(code)
        return ControlledShutdownResponse(
            ErrorCode.NONE, [RemainingPartition(*key) for key in remaining]
        )

    def elect_preferred_leaders(
        self, request: ElectPreferredLeadersRequest, context: RequestContext
    ) -> ElectPreferredLeadersResponse:
        """Make first replicas leaders again, as the controller."""
        wanted = None
        if request.topics is not None:
            wanted = [(each.topic, number) for each in request.topics for number in each.partitions]
        codes: dict[tuple[str, int], ErrorCode]
        try:
            codes = self.controller.elect_preferred(wanted, request.timeout_ms / 1000)
        except ProtocolError as error:
            # The response has no error field of its own: every partition gets the code.
            every = self.services.view.partitions() if wanted is None else wanted
            codes = dict.fromkeys(every, error.code)
        topics: dict[str, ElectedTopic] = {}
        for (topic, number), code in codes.items():
            item = topics.setdefault(topic, ElectedTopic(topic))
            text = code.name if code else None
            item.partitions.append(ElectedPartition(number, code, text))
        return ElectPreferredLeadersResponse(topics=list(topics.values()))

    def offset_for_leader_epoch(
        self, request: OffsetForLeaderEpochRequest, context: RequestContext
    ) -> OffsetForLeaderEpochResponse:
        """Return where leader epochs ended in the logs that are led here."""
        patience = Patience()
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderEpochResponseTopic(
                    topic.topic,
                    [
                        self._epoch_end(topic.topic, each, patience)
                        for each in context.paced(topic.partitions)
                    ],
                )
                for topic in request.topics
            ]
        )

    def _epoch_end(
        self, topic: str, asked: OffsetForLeaderEpochRequestPartition, patience: Patience
    ) -> OffsetForLeaderEpochResponsePartition:
        try:
            leadership = self.services.leadership(
                topic,
                asked.partition,
                patience,
                epoch=asked.current_leader_epoch,
                during_deletion=True,
            )
            epoch, end = leadership.log.end_offset_for_epoch(asked.leader_epoch)
        except ZkbrokerError as error:
            return OffsetForLeaderEpochResponsePartition(
                error_code=error_code(error), partition=asked.partition
            )
        return OffsetForLeaderEpochResponsePartition(
            error_code=ErrorCode.NONE, partition=asked.partition, leader_epoch=epoch, end_offset=end
        )

    def all(self) -> dict[ApiKey, Callable[..., object]]:
        """Return the handlers by API."""
        return {
            ApiKey.LEADER_AND_ISR: self.leader_and_isr,
            ApiKey.STOP_REPLICA: self.stop_replica,
            ApiKey.UPDATE_METADATA: self.update_metadata,
            ApiKey.CONTROLLED_SHUTDOWN: self.controlled_shutdown,
            ApiKey.ELECT_PREFERRED_LEADERS: self.elect_preferred_leaders,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: self.offset_for_leader_epoch,
        }
