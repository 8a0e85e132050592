"""Clients with few rights at a broker with an authorizer and without authentication.

Brokers and tools connect from 127.0.0.1, where `ACLS` allows everything; the client with few rights
connects from `BOB`, another address of this machine, so that both are `User:ANONYMOUS`.
"""

import socket
from collections.abc import Iterable, Mapping

from zkbroker.registry.acls import add_acls, ensure_acl_tree, remove_acls
from zkbroker.security import CLUSTER, Operation, ResourceType
from zkbroker.security.acls import Acl, Pattern, PatternType, Permission
from zkbroker.zookeeper import ZkSession

BOB = "127.0.0.2"
FRIEND = "127.0.0.1"
ANONYMOUS = "User:ANONYMOUS"
SETTINGS: Mapping[str, str] = {
    "authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer",
    "listeners": "PLAINTEXT://127.0.0.1:0",
}


def allow_brokers(session: ZkSession) -> None:
    """Allow everything from 127.0.0.1."""
    ensure_acl_tree(session)
    all_of_it = Acl(ANONYMOUS, Permission.ALLOW, Operation.ALL, FRIEND)
    add_acls(session, Pattern(*CLUSTER), [all_of_it])
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
        add_acls(session, Pattern(kind, "*"), [all_of_it])


def grant(
    session: ZkSession,
    operation: Operation,
    kind: ResourceType,
    name: str,
    *,
    host: str = BOB,
    permission: Permission = Permission.ALLOW,
    pattern_type: PatternType = PatternType.LITERAL,
) -> None:
    """Add an ACL for the client with few rights."""
    add_acls(
        session,
        Pattern(kind, name, pattern_type),
        [Acl(ANONYMOUS, permission, operation, host)],
    )


def revoke(session: ZkSession, pattern: Pattern, hosts: Iterable[str] = (BOB,)) -> None:
    """Remove the ACLs of some addresses from a pattern."""
    acls = [
        Acl(ANONYMOUS, permission, operation, host)
        for permission in Permission
        for operation in Operation
        for host in hosts
    ]
    remove_acls(session, pattern, acls)


def connect_as_bob(address: tuple[str, int]) -> socket.socket:
    """Open a connection from the address with few rights."""
    made = socket.create_connection(address, 30, source_address=(BOB, 0))
    made.settimeout(30)
    return made
