"""Who asks, and what it may do.

    request → principal → authorizer(principal, operation, resource) → served or refused

Invariant: nothing here knows sockets or ZooKeeper. Without an authorizer everything is allowed.
"""

from zkbroker.security.authorizer import CLUSTER, Authorizer, Operation, Resource, ResourceType
from zkbroker.security.principal import ANONYMOUS, Principal

__all__ = [
    "ANONYMOUS",
    "CLUSTER",
    "Authorizer",
    "Operation",
    "Principal",
    "Resource",
    "ResourceType",
]
