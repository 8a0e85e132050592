"""The guard in front of a handler: asks the authorizer for the permissions in the table.

    request -> whole needs:   refused? the answer is the error
            -> each item:     refused items are removed from the request
            -> handler        gets the allowed items, and knows nothing of permissions
            -> listed needs:  items that may not be seen are removed from the answer
            -> answer         with the errors of the refused items

Invariant: a handler never gets a refused item, so that it has no effect, and its answer is the same
whether the item exists or not. If no item is left, the handler is not called at all, unless its
answer has other contents (Metadata: the brokers). If the authorizer fails, the item is refused. A
broker without an authorizer has no guards.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from zkbroker.broker.context import RequestContext
from zkbroker.broker.dispatcher import Handler
from zkbroker.broker.permissions import NEEDS, REFUSED, Need, Scope, WouldCreate
from zkbroker.broker.refusals import ITEMS, refusal, refused_items
from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol import MESSAGES, ApiKey
from zkbroker.security import CLUSTER, Authorizer, Operation, Principal, Resource, ResourceType
from zkbroker.security.audit import AuditLog

logger = logging.getLogger(__name__)

_ALWAYS_HANDLED = frozenset({ApiKey.METADATA})
_LISTED = {ApiKey.METADATA: "topics", ApiKey.OFFSET_FETCH: "topics", ApiKey.LIST_GROUPS: "groups"}
"""APIs whose answers list items that the request did not name."""


class Asks(Protocol):
    """A client in a permission check."""

    @property
    def principal(self) -> Principal: ...
    @property
    def peer(self) -> str:
        """Its address."""

    @property
    def client_id(self) -> str | None: ...


class Permissions:
    """Asks the authorizer, and writes its decisions to the audit log."""

    def __init__(self, authorizer: Authorizer, audit: AuditLog) -> None:
        self._authorizer = authorizer
        self._some = getattr(authorizer, "allows_some", None)
        self._audit = audit
        self._failure = ""

    def allowed(
        self,
        client: Asks,
        operation: Operation,
        resource: Resource,
        *,
        audited: bool = True,
    ) -> bool:
        """Whether a client may do an operation.

        A refusal is logged if `audited`; it is not if another permission may still allow it.
        """
        allowed = self.decides(client, operation, resource)
        if allowed or audited:
            self._note(client, operation, resource, allowed=allowed)
        return allowed

    def allowed_all(self, client: Asks, wanted: Sequence[tuple[Operation, Resource]]) -> bool:
        """Whether a client may do all of some operations; a refusal is not logged."""
        for operation, resource in wanted:
            if not self.decides(client, operation, resource):
                return False
        for operation, resource in wanted:
            self._note(client, operation, resource, allowed=True)
        return True

    def decides(self, client: Asks, operation: Operation, resource: Resource) -> bool:
        """Whether a client may do an operation; the decision is not logged."""
        try:
            return (
                self._authorizer.allows(client.principal, operation, resource, client.peer) is True
            )
        except Exception as error:  # noqa: BLE001 - the authorizer may be the user's own
            self._failed(error)
            return False

    def _note(
        self, client: Asks, operation: Operation, resource: Resource, *, allowed: bool
    ) -> None:
        self._audit.note(
            *(client.principal, operation, resource, client.peer),
            allowed=allowed,
            client=client.client_id,
        )

    def allowed_on_some(self, client: Asks, operation: Operation, kind: ResourceType) -> bool:
        """Whether a client may do an operation on any name; False if the authorizer cannot say."""
        if self._some is None:
            return False
        try:
            return self._some(client.principal, operation, kind, client.peer) is True
        except Exception as error:  # noqa: BLE001 - the authorizer may be the user's own
            self._failed(error)
            return False

    def _failed(self, error: Exception) -> None:
        """Log a failure of the authorizer; a repeated one at DEBUG."""
        failure = repr(error)
        again, self._failure = failure == self._failure, failure
        logger.log(
            logging.DEBUG if again else logging.ERROR,
            "authorizer failed, refused error=%.1000s",
            failure,
            exc_info=error,
        )


class GuardedHandler:
    """A handler that only gets allowed requests and items."""

    def __init__(
        self, api: ApiKey, handler: Handler, permissions: Permissions, would_create: WouldCreate
    ) -> None:
        self._api = api
        self._handler = handler
        self._permissions = permissions
        self._would_create = would_create
        needs = NEEDS[api]
        self._whole = [need for need in needs if need.scope is Scope.WHOLE]
        self._each = [need for need in needs if need.scope is Scope.EACH]
        self._listed = [need for need in needs if need.scope is Scope.LISTED]

    def __call__(self, request: Any, context: RequestContext) -> Any:
        for need in self._whole:
            if need.when is None or need.when(request):
                for resource in need.on(request):
                    if not self._allows(need, resource, context):
                        return self._refuse(need, resource, request, context)
        refused: list[Any] = []
        allowed = request
        for need in self._each:
            if need.when is None or need.when(request):
                allowed = self._remove_refused(need, allowed, context, refused)
        if refused and not getattr(allowed, ITEMS[self._api].asked):
            response = self._answer_to_nothing(allowed, context)
        else:
            response = self._handler(allowed, context)
        for need in self._listed:
            if need.when is None or need.when(request):
                self._remove_hidden(need, response, context)
        return self._answer_refused(refused, request, response) if refused else response

    def _allows(self, need: Need, resource: Resource, context: RequestContext) -> bool:
        ask = self._permissions
        other = need.or_on_cluster
        if other is not None:
            if ask.allowed(context, other, CLUSTER, audited=False):
                return True
            context.no_broker |= other is Operation.CLUSTER_ACTION
        some = need.or_on_some_topic
        audited = need.scope is not Scope.LISTED
        if some is not None:
            if ask.allowed(context, need.operation, resource, audited=False):
                return True
            if ask.allowed_on_some(context, some, ResourceType.TOPIC):
                return True
        return ask.allowed(context, need.operation, resource, audited=audited)

    def _refuse(self, need: Need, resource: Resource, request: Any, context: RequestContext) -> Any:
        context.no_broker |= need.operation is Operation.CLUSTER_ACTION
        if need.empty:
            return MESSAGES[self._api][1]()
        code = need.code or REFUSED[resource.type]
        response = refusal(request, context.api_version, code, by_item=need.by_item)
        if response is None:
            raise _close(context, need.operation, resource)
        if self._api is ApiKey.FETCH and request.session_epoch > 0:
            # The follower has lost its permission: end its session, so that it starts over.
            response.error_code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return response

    def _remove_refused(
        self, need: Need, request: Any, context: RequestContext, refused: list[Any]
    ) -> Any:
        """Return the request without its refused items; their answers are added to `refused`."""
        field = ITEMS[self._api].asked
        items = getattr(request, field)
        if not items:
            return request
        kept: list[Any] = []
        for item in items:
            code = self._code(need, item, request, context)
            if code is None:
                kept.append(item)
            else:
                refused += refused_items(self._api, (item,), code)
            context.pace()
        if len(kept) == len(items):
            return request
        if need.rest is not None:
            refused += refused_items(self._api, kept, need.rest)
            kept = []
        return replace(request, **{field: kept})

    def _code(
        self, need: Need, item: Any, request: Any, context: RequestContext
    ) -> ErrorCode | None:
        if need.only is None or need.only(request, item, self._would_create):
            for resource in need.on(item):
                if not self._allows(need, resource, context):
                    return need.code or REFUSED[resource.type]
        return None

    def _answer_to_nothing(self, allowed: Any, context: RequestContext) -> Any:
        """Answer a request of which no item is left.

        Handlers give an empty request a meaning: OffsetCommit looks for the group, Metadata 0
        returns all topics.
        """
        if self._api not in _ALWAYS_HANDLED:
            return MESSAGES[self._api][1]()
        # From version 1 on an empty list names no topic.
        return self._handler(allowed, replace(context, api_version=max(1, context.api_version)))

    def _remove_hidden(self, need: Need, response: Any, context: RequestContext) -> None:
        field = _LISTED[self._api]
        seen: list[Any] = []
        for item in getattr(response, field):
            if all(self._allows(need, resource, context) for resource in need.on(item)):
                seen.append(item)
            context.pace()
        setattr(response, field, seen)

    def _answer_refused(self, refused: list[Any], request: Any, response: Any) -> Any:
        if self._api is ApiKey.PRODUCE and request.acks == 0:
            raise CloseConnection(
                "produce with acks=0 refused: topics="
                + ",".join(sorted({each.topic for each in refused})[:10])
            )
        field = ITEMS[self._api].answered
        setattr(response, field, [*getattr(response, field), *refused])
        return response


def guarded(
    handlers: Mapping[ApiKey, Handler], permissions: Permissions, would_create: WouldCreate
) -> dict[ApiKey, Handler]:
    """Put a guard in front of each handler.

    Raises:
        ZkbrokerError: an API is missing in the table of needs: it would be open to every client.
    """
    missing = handlers.keys() - NEEDS.keys()
    if missing:
        raise ZkbrokerError(f"no permissions are known for {sorted(each.name for each in missing)}")
    return {
        api: GuardedHandler(api, handler, permissions, would_create) if NEEDS[api] else handler
        for api, handler in handlers.items()
    }


def _close(context: RequestContext, operation: Operation, resource: Resource) -> CloseConnection:
    return CloseConnection(
        f"{ApiKey(context.api_key).name} refused, and there is no answer that says so: "
        f"{context.principal} may not {operation.name} {resource.type.name} {resource.name[:100]}"
    )
