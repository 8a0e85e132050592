"""ACLs: DescribeAcls (29), CreateAcls (30), DeleteAcls (31).

Version 1 added the pattern type: 3 for a literal name, 4 for a prefix. Numbers of resource types
and operations are those of `zkbroker.security`; permission type 2 denies, 3 allows.
"""

from zkbroker.protocol.schema import Request, array, int8, int16, int32, string, wire_message

LITERAL = 3


@wire_message
class AclFilter:
    """Null and 1 (ANY) match everything."""

    resource_type: int = int8(default=1)
    resource_name: str | None = string(nullable=0, default=None)
    pattern_type: int = int8(since=1, default=LITERAL)
    principal: str | None = string(nullable=0, default=None)
    host: str | None = string(nullable=0, default=None)
    operation: int = int8(default=1)
    permission_type: int = int8(default=1)


@wire_message
class DescribeAclsRequest(AclFilter, Request):
    """A filter."""


@wire_message
class DescribedAcl:
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_message
class DescribedAclsResource:
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(since=1, default=LITERAL)
    acls: list[DescribedAcl] = array(DescribedAcl)


@wire_message
class DescribeAclsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    resources: list[DescribedAclsResource] = array(DescribedAclsResource)


@wire_message
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(since=1, default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_message
class CreateAclsRequest(Request):
    creations: list[AclCreation] = array(AclCreation)


@wire_message
class CreatedAcl:
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)


@wire_message
class CreateAclsResponse:
    throttle_time_ms: int = int32()
    results: list[CreatedAcl] = array(CreatedAcl)


@wire_message
class DeleteAclsRequest(Request):
    filters: list[AclFilter] = array(AclFilter)


@wire_message
class DeletedAcl:
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(since=1, default=LITERAL)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@wire_message
class DeletedAcls:
    error_code: int = int16()
    error_message: str | None = string(nullable=0, default=None)
    matching: list[DeletedAcl] = array(DeletedAcl)


@wire_message
class DeleteAclsResponse:
    throttle_time_ms: int = int32()
    results: list[DeletedAcls] = array(DeletedAcls)
