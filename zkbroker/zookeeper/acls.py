"""ZooKeeper ACLs of nodes: the rights of logins, and the rights that a new node gets.

    every node                                   its creator: all      the world: read
    /config/users, /config/brokers,
    /config/scram_secret,
    /delegation_token/tokens, and below          its creator: all
    /consumers, and below                        the world: all

Kafka's brokers set the same rights with `zookeeper.set.acl=true` (except for the secret, which is
ours); without it the world has all rights on every node.

Invariant: rights depend only on the path, relative to the chroot; a node with secrets is created
with its final rights, so that it is never readable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kazoo.security import ACL, Id

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL = READ | WRITE | CREATE | DELETE | ADMIN

SECRET_PATHS = (
    "/config/users",
    "/config/brokers",
    "/config/scram_secret",
    "/delegation_token/tokens",
)
OPEN_PATHS = ("/consumers",)


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One entry of a node's ACL.

    Args:
        scheme: `world`, `sasl`, `digest`, `x509`, `ip`; `auth` stands for the logins of the session
            that sets the ACL.
        identity: within the scheme; `anyone` in `world`.
        permissions: a sum of `READ`, `WRITE`, `CREATE`, `DELETE` and `ADMIN`.
    """

    scheme: str
    identity: str
    permissions: int


Acl = frozenset[Grant]

OPEN: Acl = frozenset({Grant("world", "anyone", ALL)})
PRIVATE: Acl = frozenset({Grant("auth", "", ALL)})
READABLE: Acl = PRIVATE | {Grant("world", "anyone", READ)}


def acl_for(path: str) -> Acl:
    """Return the rights of a node, for sessions that set rights.

    Args:
        path: relative to the chroot; empty for the chroot itself.
    """
    if _is_within(path, OPEN_PATHS):
        return OPEN
    return PRIVATE if _is_within(path, SECRET_PATHS) else READABLE


def _is_within(path: str, parents: Sequence[str]) -> bool:
    return any(path == parent or path.startswith(parent + "/") for parent in parents)


def kazoo_acl(acl: Acl) -> list[Any]:
    """Return rights in kazoo's form."""
    return [ACL(each.permissions, Id(each.scheme, each.identity)) for each in sorted(acl)]


def acl_of(found: Sequence[Any]) -> Acl:
    """Return rights from kazoo's form."""
    return frozenset(Grant(each.id.scheme, each.id.id, each.perms) for each in found)
