"""How a member of a group finds its coordinator, joins, gets its share, stays and leaves.

FindCoordinator (10), JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14). The bytes of
protocol metadata and assignments belong to the members; a coordinator passes them through.
"""

from typing import ClassVar

from zkbroker.protocol.api import ApiKey
from zkbroker.protocol.schema import (
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
class FindCoordinatorRequest:
    """Args: key is a group id for key_type 0, a transactional id for key_type 1."""

    api_key: ClassVar[ApiKey] = ApiKey.FIND_COORDINATOR

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
class JoinGroupRequest:
    """Args: rebalance_timeout_ms -1 where the version has none: the session timeout holds."""

    api_key: ClassVar[ApiKey] = ApiKey.JOIN_GROUP

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
class HeartbeatRequest:
    api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT

    group_id: str = string()
    generation_id: int = int32(default=-1)
    member_id: str = string()


@wire_message
class HeartbeatResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()


@wire_message
class LeaveGroupRequest:
    api_key: ClassVar[ApiKey] = ApiKey.LEAVE_GROUP

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
class SyncGroupRequest:
    """Args: assignments come from the leader; the others send none."""

    api_key: ClassVar[ApiKey] = ApiKey.SYNC_GROUP

    group_id: str = string()
    generation_id: int = int32(default=-1)
    member_id: str = string()
    assignments: list[SyncGroupAssignment] = array(SyncGroupAssignment)


@wire_message
class SyncGroupResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    assignment: bytes = raw()
