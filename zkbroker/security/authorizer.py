"""Operations on resources, and the question whether a principal may do one.

The names and numbers are those of the ACL APIs and of the nodes under /kafka-acl.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol

from zkbroker.security.principal import Principal


class Operation(IntEnum):
    """What is done, by its number in the ACL APIs."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """What it is done to, by its number in the ACL APIs."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Resource(NamedTuple):
    """One resource by its name; the cluster's is `kafka-cluster`."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")


class Authorizer(Protocol):
    """Decides what principals may do."""

    def allows(
        self, principal: Principal, operation: Operation, resource: Resource, host: str
    ) -> bool:
        """Whether a principal that connects from `host` may do an operation to a resource."""
