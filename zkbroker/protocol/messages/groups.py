"""Group requests of operators: DescribeGroups (15), ListGroups (16), DeleteGroups (42)."""

from zkbroker.protocol.schema import Kind, Request, array, int16, int32, raw, string, wire_message


@wire_message
class DescribeGroupsRequest(Request):
    groups: list[str] = array(Kind.STRING)


@wire_message
class DescribedMember:
    member_id: str = string()
    client_id: str = string()
    client_host: str = string()
    metadata: bytes = raw()
    assignment: bytes = raw()


@wire_message
class DescribedGroup:
    error_code: int = int16()
    group_id: str = string()
    state: str = string()
    protocol_type: str = string()
    protocol_name: str = string()
    members: list[DescribedMember] = array(DescribedMember)


@wire_message
class DescribeGroupsResponse:
    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)


@wire_message
class ListGroupsRequest(Request):
    """It has no fields."""


@wire_message
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()


@wire_message
class ListGroupsResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


@wire_message
class DeleteGroupsRequest(Request):
    groups: list[str] = array(Kind.STRING)


@wire_message
class DeletedGroup:
    group_id: str = string()
    error_code: int = int16()


@wire_message
class DeleteGroupsResponse:
    throttle_time_ms: int = int32()
    groups: list[DeletedGroup] = array(DeletedGroup)
