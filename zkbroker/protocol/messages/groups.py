"""What operators ask of a coordinator: DescribeGroups (15), ListGroups (16), DeleteGroups (42)."""

from dataclasses import dataclass
from typing import ClassVar

from zkbroker.protocol.api import ApiKey
from zkbroker.protocol.schema import Kind, array, int16, int32, raw, string


@dataclass(slots=True)
class DescribeGroupsRequest:
    api_key: ClassVar[ApiKey] = ApiKey.DESCRIBE_GROUPS

    groups: list[str] = array(Kind.STRING)


@dataclass(slots=True)
class DescribedMember:
    member_id: str = string()
    client_id: str = string()
    client_host: str = string()
    metadata: bytes = raw()
    assignment: bytes = raw()


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = int16()
    group_id: str = string()
    state: str = string()
    protocol_type: str = string()
    protocol_name: str = string()
    members: list[DescribedMember] = array(DescribedMember)


@dataclass(slots=True)
class DescribeGroupsResponse:
    throttle_time_ms: int = int32(since=1)
    groups: list[DescribedGroup] = array(DescribedGroup)


@dataclass(slots=True)
class ListGroupsRequest:
    api_key: ClassVar[ApiKey] = ApiKey.LIST_GROUPS


@dataclass(slots=True)
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()


@dataclass(slots=True)
class ListGroupsResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)


@dataclass(slots=True)
class DeleteGroupsRequest:
    api_key: ClassVar[ApiKey] = ApiKey.DELETE_GROUPS

    groups: list[str] = array(Kind.STRING)


@dataclass(slots=True)
class DeletedGroup:
    group_id: str = string()
    error_code: int = int16()


@dataclass(slots=True)
class DeleteGroupsResponse:
    throttle_time_ms: int = int32()
    groups: list[DeletedGroup] = array(DeletedGroup)
