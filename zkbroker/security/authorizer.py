"""Operations on resources, and the question whether a principal may do one.

The names and numbers are those of the ACL APIs and of the nodes under /kafka-acl.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol

from zkbroker.security.principal import Principal


class Operation(IntEnum):
    """What is done, by its number in the ACL APIs; ALL stands in ACLs alone."""

    ALL = 2
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

    @property
    def label(self) -> str:
        """Its name in ZooKeeper and in the output of tools, as `ClusterAction`."""
        return self.name.title().replace("_", "")


class ResourceType(IntEnum):
    """What it is done to, by its number in the ACL APIs."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6

    @property
    def label(self) -> str:
        """Its name in ZooKeeper and in the output of tools, as `TransactionalId`."""
        return self.name.title().replace("_", "")


class Resource(NamedTuple):
    """One resource by its name; the cluster's is `kafka-cluster`."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")


class Authorizer(Protocol):
    """Decides what principals may do.

    `authorizer.class.name` may name a class or an object of this form. A class is made without
    arguments. If there is a method `configure(properties)`, it is called with the settings of the
    broker; if there is a method `allows_some`, it is asked as that of `SimpleAclAuthorizer`.
    """

    def allows(
        self, principal: Principal, operation: Operation, resource: Resource, host: str
    ) -> bool:
        """Whether a principal that connects from the address `host` may do an operation."""
