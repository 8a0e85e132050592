"""What each API needs to be allowed: one table, read by the dispatcher before a handler runs.

Invariant: every API that is served stands in the table, with no needs if anybody may ask. The
needs and the error codes are those of genuine brokers.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from zkbroker.broker.context import RequestContext
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol import ApiKey
from zkbroker.security import Authorizer, Operation, Resource, ResourceType
from zkbroker.security.authorizer import CLUSTER

Names = Callable[[Any], Iterable[Resource]]


class Need(NamedTuple):
    """An operation, and the resources of a request that it must be allowed for."""

    operation: Operation
    resources: Names


def _cluster(request: Any) -> Iterable[Resource]:
    return (CLUSTER,)


def _group(request: Any) -> Iterable[Resource]:
    return (Resource(ResourceType.GROUP, request.group_id),)


def _groups(request: Any) -> Iterable[Resource]:
    return (Resource(ResourceType.GROUP, name) for name in request.groups)


def _coordinated(request: Any) -> Iterable[Resource]:
    kind = ResourceType.TRANSACTIONAL_ID if request.key_type else ResourceType.GROUP
    return (Resource(kind, request.key),)


def _topics(request: Any) -> Iterable[Resource]:
    for topic in request.topics or ():
        yield Resource(ResourceType.TOPIC, topic if isinstance(topic, str) else topic.topic)


def _transaction(request: Any) -> Iterable[Resource]:
    if request.transactional_id is not None:
        yield Resource(ResourceType.TRANSACTIONAL_ID, request.transactional_id)


def _resources(request: Any) -> Iterable[Resource]:
    for each in request.resources:
        if each.resource_type == ResourceType.TOPIC:
            yield Resource(ResourceType.TOPIC, each.resource_name)
        else:
            yield CLUSTER


_WRITE_TOPICS = Need(Operation.WRITE, _topics)
_READ_TOPICS = Need(Operation.READ, _topics)
_DESCRIBE_TOPICS = Need(Operation.DESCRIBE, _topics)
_BROKERS_ONLY = Need(Operation.CLUSTER_ACTION, _cluster)
_READ_GROUP = Need(Operation.READ, _group)

NEEDS: Mapping[ApiKey, tuple[Need, ...]] = {
    ApiKey.PRODUCE: (_WRITE_TOPICS, Need(Operation.WRITE, _transaction)),
    ApiKey.FETCH: (_READ_TOPICS,),
    ApiKey.LIST_OFFSETS: (_DESCRIBE_TOPICS,),
    ApiKey.METADATA: (_DESCRIBE_TOPICS,),
    ApiKey.LEADER_AND_ISR: (_BROKERS_ONLY,),
    ApiKey.STOP_REPLICA: (_BROKERS_ONLY,),
    ApiKey.UPDATE_METADATA: (_BROKERS_ONLY,),
    ApiKey.CONTROLLED_SHUTDOWN: (_BROKERS_ONLY,),
    ApiKey.OFFSET_COMMIT: (_READ_GROUP, _READ_TOPICS),
    ApiKey.OFFSET_FETCH: (Need(Operation.DESCRIBE, _group), _DESCRIBE_TOPICS),
    ApiKey.FIND_COORDINATOR: (Need(Operation.DESCRIBE, _coordinated),),
    ApiKey.JOIN_GROUP: (_READ_GROUP,),
    ApiKey.HEARTBEAT: (_READ_GROUP,),
    ApiKey.LEAVE_GROUP: (_READ_GROUP,),
    ApiKey.SYNC_GROUP: (_READ_GROUP,),
    ApiKey.DESCRIBE_GROUPS: (Need(Operation.DESCRIBE, _groups),),
    ApiKey.LIST_GROUPS: (Need(Operation.DESCRIBE, _cluster),),
    ApiKey.API_VERSIONS: (),
    ApiKey.CREATE_TOPICS: (Need(Operation.CREATE, _cluster),),
    ApiKey.DELETE_TOPICS: (Need(Operation.DELETE, _topics),),
    ApiKey.DELETE_RECORDS: (Need(Operation.DELETE, _topics),),
    ApiKey.INIT_PRODUCER_ID: (Need(Operation.WRITE, _transaction),),
    ApiKey.ADD_PARTITIONS_TO_TXN: (Need(Operation.WRITE, _transaction), _WRITE_TOPICS),
    ApiKey.ADD_OFFSETS_TO_TXN: (Need(Operation.WRITE, _transaction), _READ_GROUP),
    ApiKey.END_TXN: (Need(Operation.WRITE, _transaction),),
    ApiKey.WRITE_TXN_MARKERS: (_BROKERS_ONLY,),
    ApiKey.TXN_OFFSET_COMMIT: (Need(Operation.WRITE, _transaction), _READ_GROUP, _READ_TOPICS),
    ApiKey.VERIFY_TRANSACTION: (_BROKERS_ONLY,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_BROKERS_ONLY,),
    ApiKey.DESCRIBE_ACLS: (Need(Operation.DESCRIBE, _cluster),),
    ApiKey.CREATE_ACLS: (Need(Operation.ALTER, _cluster),),
    ApiKey.DELETE_ACLS: (Need(Operation.ALTER, _cluster),),
    ApiKey.DESCRIBE_CONFIGS: (Need(Operation.DESCRIBE_CONFIGS, _resources),),
    ApiKey.ALTER_CONFIGS: (Need(Operation.ALTER_CONFIGS, _resources),),
    ApiKey.DESCRIBE_LOG_DIRS: (Need(Operation.DESCRIBE, _cluster),),
    ApiKey.CREATE_PARTITIONS: (Need(Operation.ALTER, _topics),),
    ApiKey.DELETE_GROUPS: (Need(Operation.DELETE, _groups),),
    ApiKey.ELECT_PREFERRED_LEADERS: (Need(Operation.ALTER, _cluster),),
}

_REFUSED: Mapping[ResourceType, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def check_permissions(authorizer: Authorizer, request: Any, context: RequestContext) -> None:
    """Refuse a request of which any part is not allowed.

    Raises:
        ProtocolError: what is not allowed (29, 30, 31, 53).
    """
    for need in NEEDS[ApiKey(context.api_key)]:
        for resource in need.resources(request):
            allowed = authorizer.allows(context.principal, need.operation, resource, context.peer)
            if not allowed:
                raise ProtocolError(
                    f"{context.principal} may not {need.operation.name} "
                    f"{resource.type.name} {resource.name}",
                    code=_REFUSED[resource.type],
                )
