"""The permissions that each API needs: one table, used by the guard in front of the handlers.

    whole   the request is refused unless it is allowed
    each    items that are not allowed are removed from the request, and get the error
    listed  items that the request did not name and that are not allowed are left out of the answer

Invariant: every served API is in the table, without needs if every client may use it. The needs and
the error codes are those of genuine brokers (2.1), for idempotent producers those of 2.8.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import partial
from typing import Any

from zkbroker.errors import ErrorCode
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages.configs import ConfigResourceType
from zkbroker.protocol.messages.membership import TRANSACTION_COORDINATOR
from zkbroker.records.layout import (
    ATTRIBUTES_V2_LOW_AT,
    BATCH_HEADER_BYTES,
    MAGIC_AT,
    PRODUCER_AT,
    TRANSACTIONAL_BIT,
)
from zkbroker.security import CLUSTER, Operation, Resource, ResourceType

WouldCreate = Callable[[str], bool]
"""Returns whether asking for a topic creates it."""


class Scope(Enum):
    """Which part of a request or answer is refused."""

    WHOLE = "whole"
    EACH = "each"
    LISTED = "listed"


@dataclass(frozen=True, slots=True)
class Need:
    """An operation, and the resources on which it must be allowed.

    Args:
        scope: what is refused if it is not allowed.
        operation: the operation.
        on: returns the resources, of the request for a whole need, of the item for the others.
        when: which requests need it; all if None.
        only: which items need it; all if None.
        or_on_cluster: an operation that is also enough if it is allowed on the cluster.
        or_on_some_topic: an operation that is also enough if it is allowed on any topic.
        code: the error; that of the resource's type if None.
        by_item: whether a refused request has an error for each item rather than a single one.
        rest: the error of the allowed items, which are not processed either; None to process them.
        empty: whether a refused request gets an empty response.
    """

    scope: Scope
    operation: Operation
    on: Callable[[Any], Iterable[Resource]]
    _: KW_ONLY
    when: Callable[[Any], bool] | None = None
    only: Callable[[Any, Any, WouldCreate], bool] | None = None
    or_on_cluster: Operation | None = None
    or_on_some_topic: Operation | None = None
    code: ErrorCode | None = None
    by_item: bool = False
    rest: ErrorCode | None = None
    empty: bool = False


_whole = partial(Need, Scope.WHOLE)
_each = partial(Need, Scope.EACH)
_listed = partial(Need, Scope.LISTED)


# -- resources


def _cluster(request: Any) -> Iterable[Resource]:
    return (CLUSTER,)


def _group(request: Any) -> Iterable[Resource]:
    return (Resource(ResourceType.GROUP, request.group_id),)


def _transaction(request: Any) -> Iterable[Resource]:
    if request.transactional_id is not None:
        yield Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)


def _coordinated(request: Any) -> Iterable[Resource]:
    transactional = request.key_type == TRANSACTION_COORDINATOR
    kind = ResourceType.TRANSACTIONAL_ID if transactional else ResourceType.GROUP
    return (Resource(kind, request.key),)


def _topic(item: Any) -> Iterable[Resource]:
    return (Resource(ResourceType.TOPIC, item if isinstance(item, str) else item.topic),)


def _group_item(item: Any) -> Iterable[Resource]:
    return (Resource(ResourceType.GROUP, item if isinstance(item, str) else item.group_id),)


def _configured(item: Any) -> Iterable[Resource]:
    if item.resource_type == ConfigResourceType.TOPIC:
        return (Resource(ResourceType.TOPIC, item.resource_name),)
    return (CLUSTER,)


# -- conditions


def _batches(request: Any) -> Iterable[Any]:
    for topic in request.topics:
        for partition in topic.partitions:
            data = partition.records
            if data is not None and len(data) >= BATCH_HEADER_BYTES and data[MAGIC_AT] == 2:
                yield data


def _is_transactional(request: Any) -> bool:
    return any(data[ATTRIBUTES_V2_LOW_AT] & TRANSACTIONAL_BIT for data in _batches(request))


def _has_producer_id(request: Any) -> bool:
    # A producer without an id sets all bits.
    return any(data[PRODUCER_AT] != 0xFF for data in _batches(request))


def _by_follower(request: Any) -> bool:
    return bool(request.replica_id >= 0)


def _by_client(request: Any) -> bool:
    return bool(request.replica_id < 0)


def _of_all(request: Any) -> bool:
    return not request.topics


def _is_created(request: Any, item: Any, would_create: WouldCreate) -> bool:
    return bool(request.allow_auto_topic_creation) and would_create(item)


_BROKERS_ONLY = _whole(Operation.CLUSTER_ACTION, _cluster)
_READ_GROUP = _whole(Operation.READ, _group)
_WRITE_TRANSACTION = _whole(Operation.WRITE, _transaction)
_READ_TOPICS = _each(Operation.READ, _topic)
_WRITE_TOPICS = _each(Operation.WRITE, _topic)
_DESCRIBE_TOPICS = _each(Operation.DESCRIBE, _topic)
_DELETE_TOPICS = _each(Operation.DELETE, _topic)
_ALTER_CLUSTER = _whole(Operation.ALTER, _cluster)

NEEDS: Mapping[ApiKey, tuple[Need, ...]] = {
    ApiKey.PRODUCE: (
        _whole(Operation.WRITE, _transaction, when=_is_transactional),
        _whole(
            Operation.IDEMPOTENT_WRITE,
            _cluster,
            when=_has_producer_id,
            or_on_some_topic=Operation.WRITE,
        ),
        _WRITE_TOPICS,
    ),
    ApiKey.FETCH: (
        _whole(
            Operation.CLUSTER_ACTION,
            _cluster,
            when=_by_follower,
            code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            by_item=True,
        ),
        _each(Operation.READ, _topic, when=_by_client),
    ),
    ApiKey.LIST_OFFSETS: (
        _each(Operation.DESCRIBE, _topic, when=_by_client),
        # A follower whose position the leader no longer has asks where the log begins and ends.
        _each(
            Operation.DESCRIBE,
            _topic,
            when=_by_follower,
            or_on_cluster=Operation.CLUSTER_ACTION,
        ),
    ),
    ApiKey.METADATA: (
        _DESCRIBE_TOPICS,
        _each(Operation.CREATE, _topic, only=_is_created, or_on_cluster=Operation.CREATE),
        _listed(Operation.DESCRIBE, _topic, when=_of_all),
    ),
    ApiKey.LEADER_AND_ISR: (_BROKERS_ONLY,),
    ApiKey.STOP_REPLICA: (_BROKERS_ONLY,),
    ApiKey.UPDATE_METADATA: (_BROKERS_ONLY,),
    ApiKey.CONTROLLED_SHUTDOWN: (_BROKERS_ONLY,),
    ApiKey.OFFSET_COMMIT: (_READ_GROUP, _READ_TOPICS),
    ApiKey.OFFSET_FETCH: (
        _whole(Operation.DESCRIBE, _group),
        _DESCRIBE_TOPICS,
        _listed(Operation.DESCRIBE, _topic, when=_of_all),
    ),
    ApiKey.FIND_COORDINATOR: (_whole(Operation.DESCRIBE, _coordinated),),
    ApiKey.JOIN_GROUP: (_READ_GROUP,),
    ApiKey.HEARTBEAT: (_READ_GROUP,),
    ApiKey.LEAVE_GROUP: (_READ_GROUP,),
    ApiKey.SYNC_GROUP: (_READ_GROUP,),
    ApiKey.DESCRIBE_GROUPS: (_each(Operation.DESCRIBE, _group_item),),
    ApiKey.LIST_GROUPS: (
        _listed(Operation.DESCRIBE, _group_item, or_on_cluster=Operation.DESCRIBE),
    ),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.API_VERSIONS: (),
    ApiKey.CREATE_TOPICS: (_each(Operation.CREATE, _topic, or_on_cluster=Operation.CREATE),),
    ApiKey.DELETE_TOPICS: (_DELETE_TOPICS,),
    ApiKey.DELETE_RECORDS: (_DELETE_TOPICS,),
    ApiKey.INIT_PRODUCER_ID: (
        _WRITE_TRANSACTION,
        _whole(
            Operation.IDEMPOTENT_WRITE,
            _cluster,
            when=lambda request: request.transactional_id is None,
            or_on_some_topic=Operation.WRITE,
        ),
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        _each(Operation.DESCRIBE, _topic, or_on_cluster=Operation.CLUSTER_ACTION),
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        _WRITE_TRANSACTION,
        _each(Operation.WRITE, _topic, rest=ErrorCode.OPERATION_NOT_ATTEMPTED),
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (_WRITE_TRANSACTION, _READ_GROUP),
    ApiKey.END_TXN: (_WRITE_TRANSACTION,),
    ApiKey.WRITE_TXN_MARKERS: (_BROKERS_ONLY,),
    ApiKey.TXN_OFFSET_COMMIT: (_WRITE_TRANSACTION, _READ_GROUP, _READ_TOPICS),
    ApiKey.VERIFY_TRANSACTION: (_BROKERS_ONLY,),
    ApiKey.DESCRIBE_ACLS: (_whole(Operation.DESCRIBE, _cluster),),
    ApiKey.CREATE_ACLS: (_ALTER_CLUSTER,),
    ApiKey.DELETE_ACLS: (_ALTER_CLUSTER,),
    ApiKey.DESCRIBE_CONFIGS: (_each(Operation.DESCRIBE_CONFIGS, _configured),),
    ApiKey.ALTER_CONFIGS: (_each(Operation.ALTER_CONFIGS, _configured),),
    ApiKey.DESCRIBE_LOG_DIRS: (_whole(Operation.DESCRIBE, _cluster, empty=True),),
    ApiKey.CREATE_PARTITIONS: (_each(Operation.ALTER, _topic),),
    ApiKey.DELETE_GROUPS: (_each(Operation.DELETE, _group_item),),
    ApiKey.ELECT_PREFERRED_LEADERS: (_ALTER_CLUSTER,),
}

REFUSED: Mapping[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error if an operation on a resource is not allowed."""
