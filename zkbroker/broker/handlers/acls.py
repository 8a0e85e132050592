"""DescribeAcls, CreateAcls and DeleteAcls.

Invariant: a change of ACLs is in force on this broker when the answer is sent, and on the others as
soon as they see the notice. The ACLs of one pattern are written together. Without an authorizer
that keeps ACLs in ZooKeeper, each call is answered with error 54: closing the connection instead
would break the next call of clients that share it.
"""

import time
from collections.abc import Callable, Mapping

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import set_error
from zkbroker.broker.pacing import paced
from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from zkbroker.protocol.messages.acls import (
    AclCreation,
    AclFilter,
    CreatedAcl,
    DeletedAcl,
    DeletedAcls,
    DescribedAcl,
    DescribedAclsResource,
)
from zkbroker.registry.acl_watch import AclWatch
from zkbroker.registry.acls import add_acls, remove_acls
from zkbroker.security.acl_index import AclIndex
from zkbroker.security.acls import (
    ANY,
    MATCH,
    Acl,
    Binding,
    BindingFilter,
    Pattern,
    PatternType,
    Permission,
    check_acl,
    check_pattern,
)
from zkbroker.security.authorizer import Operation, ResourceType
from zkbroker.zookeeper.session import ZkSession

_WHY = "No Authorizer is configured on the broker"
WRITE_WITHIN_S = 30.0
"""How long one request may write ACLs: it may name as many as `request.max.items`."""


def describe_no_acls(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    """Answer that there are no ACLs."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_WHY)


def create_no_acls(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    """Refuse each ACL."""
    return CreateAclsResponse(
        results=[
            CreatedAcl(ErrorCode.SECURITY_DISABLED, _WHY) for _ in context.paced(request.creations)
        ]
    )


def delete_no_acls(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    """Refuse each filter."""
    return DeleteAclsResponse(
        results=[
            DeletedAcls(ErrorCode.SECURITY_DISABLED, _WHY) for _ in context.paced(request.filters)
        ]
    )


NO_ACLS: Mapping[ApiKey, Callable[..., object]] = {
    ApiKey.DESCRIBE_ACLS: describe_no_acls,
    ApiKey.CREATE_ACLS: create_no_acls,
    ApiKey.DELETE_ACLS: delete_no_acls,
}
"""The handlers of a broker without ACLs in ZooKeeper."""


class AclsHandlers:
    """Handles the ACL APIs.

    Args:
        index: returns the ACLs that this broker knows.
        session: writes them.
        watch: reads them again.
        prefixed: whether all brokers of the cluster know prefixed patterns (since 2.0).
    """

    def __init__(
        self, index: Callable[[], AclIndex], session: ZkSession, watch: AclWatch, *, prefixed: bool
    ) -> None:
        self._index = index
        self._session = session
        self._watch = watch
        self._prefixed = prefixed

    def handlers(self) -> Mapping[ApiKey, Callable[..., object]]:
        """Return the handlers by API."""
        return {
            ApiKey.DESCRIBE_ACLS: self.describe,
            ApiKey.CREATE_ACLS: self.create,
            ApiKey.DELETE_ACLS: self.delete,
        }

    def describe(
        self, request: DescribeAclsRequest, context: RequestContext
    ) -> DescribeAclsResponse:
        """Return the ACLs that match a filter, grouped by resource."""
        try:
            wanted = _filter(request)
        except ProtocolError as error:
            return DescribeAclsResponse(error_code=error.code, error_message=str(error))
        resources: dict[Pattern, DescribedAclsResource] = {}
        for pattern, acl in self._index().find(wanted, context.pace):
            resource = resources.get(pattern)
            if resource is None:
                resource = resources[pattern] = DescribedAclsResource(
                    pattern.type, pattern.name, pattern.pattern_type
                )
            resource.acls.append(
                DescribedAcl(acl.principal, acl.host, acl.operation, acl.permission)
            )
            context.pace()
        return DescribeAclsResponse(resources=list(resources.values()))

    def create(self, request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
        """Create ACLs; each has its own result."""
        answers = [CreatedAcl() for _ in request.creations]
        wanted: dict[Pattern, list[tuple[Acl, CreatedAcl]]] = {}
        for creation, answer in zip(request.creations, answers, strict=True):
            try:
                pattern, acl = self._binding(creation)
                wanted.setdefault(pattern, []).append((acl, answer))
            except ProtocolError as error:
                set_error(answer, error)
            context.pace()

        def write(pattern: Pattern) -> None:
            add_acls(self._session, pattern, [acl for acl, _ in wanted[pattern]])

        for pattern, failure in self._write_each(list(wanted), write, context).items():
            for _, answer in wanted[pattern]:
                set_error(answer, failure)
        return CreateAclsResponse(results=answers)

    def delete(self, request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
        """Delete the ACLs that match the filters; the answer lists them by filter."""
        answers: list[DeletedAcls] = []
        chosen: dict[Pattern, dict[Acl, list[DeletedAcl]]] = {}
        for asked in request.filters:
            answer = DeletedAcls()
            answers.append(answer)
            try:
                for binding in self._index().find(_filter(asked), context.pace):
                    deleted = _deleted(binding)
                    answer.matching.append(deleted)
                    acls = chosen.setdefault(binding.pattern, {})
                    acls.setdefault(binding.acl, []).append(deleted)
                    context.pace()
            except ProtocolError as error:
                set_error(answer, error)

        def write(pattern: Pattern) -> None:
            remove_acls(self._session, pattern, chosen[pattern])

        for pattern, failure in self._write_each(list(chosen), write, context).items():
            for deleted in (each for many in chosen[pattern].values() for each in many):
                set_error(deleted, failure)
        return DeleteAclsResponse(results=answers)

    def _write_each(
        self,
        patterns: list[Pattern],
        write: Callable[[Pattern], object],
        context: RequestContext,
    ) -> dict[Pattern, ZkbrokerError]:
        """Write patterns, and make this broker read them again; returns the errors."""
        failures: dict[Pattern, ZkbrokerError] = {}
        until = time.monotonic() + WRITE_WITHIN_S
        with context.park(lambda: None):
            for pattern in paced(patterns):
                if time.monotonic() > until:
                    failures[pattern] = ProtocolError(
                        f"one request writes ACLs for at most {WRITE_WITHIN_S:g} s: send the rest "
                        "in another one",
                        code=ErrorCode.REQUEST_TIMED_OUT,
                    )
                    continue
                try:
                    write(pattern)
                except ZkbrokerError as error:
                    failures[pattern] = error
            if patterns:
                self._watch.reread(patterns)
        return failures

    def _binding(self, creation: AclCreation) -> Binding:
        try:
            pattern = Pattern(
                ResourceType(creation.resource_type),
                creation.resource_name,
                PatternType(creation.pattern_type),
            )
            acl = Acl(
                creation.principal,
                Permission(creation.permission_type),
                Operation(creation.operation),
                creation.host,
            )
        except ValueError as error:
            raise _invalid(
                f"An ACL needs one type, pattern, operation and permission: {error}"
            ) from None
        check_pattern(pattern)
        check_acl(acl)
        if pattern.pattern_type is PatternType.PREFIXED and not self._prefixed:
            raise ProtocolError(
                "Adding ACLs on prefixed resource patterns requires inter.broker.protocol.version "
                "of 2.0 or greater.",
                code=ErrorCode.UNSUPPORTED_VERSION,
            )
        return Binding(pattern, acl)


def _filter(asked: DescribeAclsRequest | AclFilter) -> BindingFilter:
    for value, known, name in (
        (asked.resource_type, {ANY, *ResourceType}, "resource type"),
        (asked.pattern_type, {ANY, MATCH, *PatternType}, "pattern type"),
        (asked.operation, {ANY, *Operation}, "operation"),
        (asked.permission_type, {ANY, *Permission}, "permission type"),
    ):
        if value not in known:
            raise _invalid(f"The filter has the unknown {name} {value}.")
    return BindingFilter(
        asked.resource_type,
        asked.resource_name,
        asked.pattern_type,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )


def _deleted(binding: Binding) -> DeletedAcl:
    (kind, name, pattern_type), acl = binding
    return DeletedAcl(
        ErrorCode.NONE,
        None,
        kind,
        name,
        pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _invalid(text: str) -> ProtocolError:
    return ProtocolError(text, code=ErrorCode.INVALID_REQUEST)
