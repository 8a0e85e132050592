"""Operations, resources, and the interface of an authorizer.

The names and numbers are those of the ACL APIs and of the nodes under /kafka-acl.
"""

from enum import IntEnum
from typing import NamedTuple, Protocol

from zkbroker.security.principal import Principal


class Labelled(IntEnum):
    """Numbers with names."""

    @property
    def label(self) -> str:
        """Its name in ZooKeeper and in the output of tools, as `ClusterAction`."""
        return self.name.title().replace("_", "")


class Operation(Labelled):
    """Operations, by their numbers in the ACL APIs; ALL appears only in ACLs."""

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


class ResourceType(Labelled):
    """Types of resources, by their numbers in the ACL APIs."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6


class Resource(NamedTuple):
    """One resource by its name; the cluster is named `kafka-cluster`."""

    type: ResourceType
    name: str


CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")


class Authorizer(Protocol):
    """Decides which operations principals may do.

    `authorizer.class.name` may name a class or an object of this form. A class is instantiated
    without arguments. If there is a method `configure(properties)`, it is called with the settings
    of the broker; if there is a method `allows_some`, it is used like that of
    `SimpleAclAuthorizer`.
    """

    def allows(
        self, principal: Principal, operation: Operation, resource: Resource, host: str
    ) -> bool:
        """Whether a principal that connects from the address `host` may do an operation."""
