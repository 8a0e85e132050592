"""The membership of a group: find the coordinator, join, get an assignment, stay, and leave.

FindCoordinator (10), JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14). The members
define the bytes of protocol metadata and assignments; a coordinator passes them through.
"""

from zkbroker.protocol.schema import (
    Request,
    array,
    int8,
    int16,
    int32,
    keyword_message,
    raw,
    string,
    wire_message,
)

GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1


@wire_message
class FindCoordinatorRequest(Request):
    """Args: key is a group id for key_type 0, a transactional id for key_type 1."""

    key: str = string()
    key_type: int = int8(since=1)


@wire_message
class FindCoordinatorResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    error_message: str | None = string(since=1, nullable=1, default=None)
    node_id: int = int32(default=-1)
    host: str = string()
    port: int = int32(default=-1)


@wire_message
class JoinGroupProtocol:
    name: str = string()
    metadata: bytes = raw()


@wire_message
class JoinGroupRequest(Request):
    """Args: rebalance_timeout_ms: -1 in version 0, where the session timeout takes its place."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(since=1, default=-1)
    member_id: str = string()
    protocol_type: str = string()
    protocols: list[JoinGroupProtocol] = array(JoinGroupProtocol)


@wire_message
class JoinGroupMember:
    member_id: str = string()
    metadata: bytes = raw()


@keyword_message
class JoinGroupResponse:
    """Args: members is filled for the leader only."""

    throttle_time_ms: int = int32(since=2)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_name: str = string()
    leader: str = string()
    member_id: str = string()
    members: list[JoinGroupMember] = array(JoinGroupMember)


@wire_message
class HeartbeatRequest(Request):
    group_id: str = string()
    generation_id: int = int32(default=-1)
    member_id: str = string()


@wire_message
class HeartbeatResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()


@wire_message
class LeaveGroupRequest(Request):
    group_id: str = string()
    member_id: str = string()


@wire_message
class LeaveGroupResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()


@wire_message
class SyncGroupAssignment:
    member_id: str = string()
    assignment: bytes = raw()


@wire_message
class SyncGroupRequest(Request):
    """Args: assignments: from the leader; other members send none."""

    group_id: str = string()
    generation_id: int = int32(default=-1)
    member_id: str = string()
    assignments: list[SyncGroupAssignment] = array(SyncGroupAssignment)


@wire_message
class SyncGroupResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    assignment: bytes = raw()
