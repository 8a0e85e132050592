"""The group APIs: finding a group's coordinator, and its services for members and operators.

Invariant: a waiting request (JoinGroup for the end of the rebalance, SyncGroup for the leader's
assignment) blocks only its own connection, and always ends: by the rebalance time-out, by its
member's removal, or by the coordinator's close.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from zkbroker.broker.context import RequestContext
from zkbroker.broker.handlers.metadata import described_broker
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.view import NO_LEADER
from zkbroker.coordinator.groups import (
    GroupCoordinator,
    JoinRequest,
    JoinResult,
    SyncResult,
)
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from zkbroker.protocol.messages.groups import (
    DeletedGroup,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
)
from zkbroker.protocol.messages.membership import (
    GROUP_COORDINATOR,
    TRANSACTION_COORDINATOR,
    JoinGroupMember,
)
from zkbroker.protocol.offsets_topic import OFFSETS_TOPIC
from zkbroker.protocol.transaction_topic import TRANSACTION_TOPIC
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

_TOPICS = {GROUP_COORDINATOR: OFFSETS_TOPIC, TRANSACTION_COORDINATOR: TRANSACTION_TOPIC}
"""The internal topics of coordinators, by the type of key in FindCoordinator."""

Result = TypeVar("Result")


class _Answer(Generic[Result]):
    """A reply that may come later."""

    def __init__(self, runtime: Runtime) -> None:
        self._event = runtime.event()
        self._result: Result | None = None

    def __call__(self, result: Result) -> None:
        self._result = result
        self._event.set()

    def wait(self, context: RequestContext, gone: Callable[[], object]) -> Result:
        """Wait for the reply; `gone` is called if the client disconnects first."""
        if not self._event.is_set():
            with context.park(self._event.set):
                self._event.wait()
        if self._result is None:
            gone()
            raise CloseConnection("the client left while it waited for its group", quiet=True)
        return self._result


@dataclass(frozen=True, eq=False)
class GroupHandlers:
    """Handles the group APIs; the coordinator has the groups whose partition is hosted here."""

    services: BrokerServices
    coordinator: GroupCoordinator

    def find_coordinator(
        self, request: FindCoordinatorRequest, context: RequestContext
    ) -> FindCoordinatorResponse:
        """Name the broker that leads the key's partition; error 15 while there is none."""
        topic = _TOPICS.get(request.key_type)
        if topic is None:
            return _no_coordinator(ErrorCode.UNKNOWN_SERVER_ERROR)
        if topic == TRANSACTION_TOPIC and self.services.config.inter_broker_protocol == "0.8.2":
            # Transactional clients take this error as final, and retry after others.
            return _no_coordinator(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "Transactions need inter.broker.protocol.version=2.1 or later.",
            )
        view = self.services.view
        assignment = view.assignment(topic)
        if assignment is None:
            try:
                self.services.topics.create_automatically(topic)
            except ZkbrokerError as error:
                # Every client retries after error 15; it may take other errors as final.
                logger.warning("topic not created topic=%s error=%s", topic, error)
            return _no_coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        number = key_partition(request.key, len(assignment))
        leader, _ = view.leader(topic, number)
        broker = None if leader == NO_LEADER else view.brokers.get(leader)
        described = None if broker is None else described_broker(broker, context.listener)
        if described is None:
            return _no_coordinator(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(
            error_message=ErrorCode.NONE.name,  # as genuine brokers
            node_id=described.node_id,
            host=described.host,
            port=described.port,
        )

    def join_group(self, request: JoinGroupRequest, context: RequestContext) -> JoinGroupResponse:
        """Let a member join; answered when the rebalance is over."""
        answer: _Answer[JoinResult] = _Answer(self.services.runtime)
        self.coordinator.join(
            request.group_id,
            JoinRequest(
                member_id=request.member_id,
                client_id=context.client_id or "",
                client_host=f"/{context.peer}",
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                protocol_type=request.protocol_type,
                protocols=tuple((each.name, each.metadata) for each in request.protocols),
            ),
            answer,
        )
        result = answer.wait(context, lambda: self.coordinator.gone(request.group_id, answer))
        return JoinGroupResponse(
            error_code=result.error,
            generation_id=result.generation,
            protocol_name=result.protocol,
            leader=result.leader,
            member_id=result.member_id,
            members=[JoinGroupMember(*member) for member in result.members],
        )

    def sync_group(self, request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
        """Return a member's assignment; answered when the leader has sent it."""
        answer: _Answer[SyncResult] = _Answer(self.services.runtime)
        self.coordinator.sync(
            request.group_id,
            request.member_id,
            request.generation_id,
            {each.member_id: each.assignment for each in request.assignments},
            answer,
        )
        result = answer.wait(context, lambda: self.coordinator.gone(request.group_id, answer))
        return SyncGroupResponse(error_code=result.error, assignment=result.assignment)

    def heartbeat(self, request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
        """Record that a member is alive."""
        error = self.coordinator.heartbeat(
            request.group_id, request.member_id, request.generation_id
        )
        return HeartbeatResponse(error_code=error)

    def leave_group(
        self, request: LeaveGroupRequest, context: RequestContext
    ) -> LeaveGroupResponse:
        """Remove a member."""
        return LeaveGroupResponse(
            error_code=self.coordinator.leave(request.group_id, request.member_id)
        )

    def describe_groups(
        self, request: DescribeGroupsRequest, context: RequestContext
    ) -> DescribeGroupsResponse:
        """Describe groups that are coordinated here."""
        described = map(self.coordinator.describe, context.paced(dict.fromkeys(request.groups)))
        return DescribeGroupsResponse(
            groups=[
                DescribedGroup(
                    error_code=each.error,
                    group_id=each.group_id,
                    state=each.state,
                    protocol_type=each.protocol_type,
                    protocol_name=each.protocol,
                    members=[DescribedMember(*member) for member in each.members],
                )
                for each in described
            ]
        )

    def list_groups(
        self, request: ListGroupsRequest, context: RequestContext
    ) -> ListGroupsResponse:
        """List the groups that are coordinated here."""
        error, groups = self.coordinator.list_groups()
        return ListGroupsResponse(
            error_code=error, groups=[ListedGroup(*group) for group in groups]
        )

    def delete_groups(
        self, request: DeleteGroupsRequest, context: RequestContext
    ) -> DeleteGroupsResponse:
        """Delete empty groups with their offsets."""
        return DeleteGroupsResponse(
            groups=[
                DeletedGroup(group_id, self.coordinator.delete(group_id, context.park))
                for group_id in context.paced(dict.fromkeys(request.groups))
            ]
        )


def _no_coordinator(error: ErrorCode, message: str | None = None) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(error_code=error, error_message=message or error.name)
