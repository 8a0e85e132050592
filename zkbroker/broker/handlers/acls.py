"""DescribeAcls, CreateAcls and DeleteAcls, while no authorizer is configured: error 54.

A broker that closed the connection instead would break the next call of clients that share it.
"""

from zkbroker.broker.context import RequestContext
from zkbroker.errors import ErrorCode
from zkbroker.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from zkbroker.protocol.messages.acls import CreatedAcl, DeletedAcls

_WHY = "No Authorizer is configured on the broker"


def describe_acls(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Answer that there are no ACLs."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_WHY)


def create_acls(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Refuse each ACL."""
    return CreateAclsResponse(
        results=[
            CreatedAcl(ErrorCode.SECURITY_DISABLED, _WHY) for _ in context.paced(request.creations)
        ]
    )


def delete_acls(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Refuse each filter."""
    return DeleteAclsResponse(
        results=[
            DeletedAcls(ErrorCode.SECURITY_DISABLED, _WHY) for _ in context.paced(request.filters)
        ]
    )
