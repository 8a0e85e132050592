"""ACLs in ZooKeeper, in the two forms of genuine brokers and tools.

    /kafka-acl/[Type]/[name]                    literal names
    /kafka-acl-extended/prefixed/[Type]/[name]  prefixes (2.0)
        {"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",
                              "operation":"Read","host":"*"}]}
    /kafka-acl-changes/acl_changes_[seq]            Topic:name
    /kafka-acl-extended-changes/acl_changes_[seq]   {"version":1,"resourceType":"Topic",
                                                     "name":"n","patternType":"PREFIXED"}

Invariants: a node is written only under the version that was read, and read again if another client
has changed it, so that no ACL is lost; a node without ACLs is deleted. The notice of a change
follows the change. An unreadable node never counts as "no ACLs": it is `UNREADABLE`, denies every
access to its resources, and is not overwritten. Resource types and operations of later versions
are skipped.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from zkbroker.errors import ErrorCode, ProtocolError, RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json, tell_unreadable, write_json
from zkbroker.registry.optional_nodes import children, read_node
from zkbroker.security.acl_index import UNREADABLE
from zkbroker.security.acls import (
    Acl,
    Pattern,
    PatternType,
    Permission,
    check_acl,
    check_pattern,
)
from zkbroker.security.authorizer import Operation, ResourceType
from zkbroker.zookeeper.errors import BadVersion, ConnectionLost, NodeExists, NoNode
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

VERSION = 1
MAX_NODE_BYTES = 1_000_000
"""ZooKeeper refuses nodes of 1 MiB."""
ATTEMPTS = 100
"""How often a write is tried when other clients change the node at the same time."""

FORMS: dict[PatternType, tuple[str, str]] = {
    PatternType.LITERAL: (paths.ACLS, paths.ACL_CHANGES),
    PatternType.PREFIXED: (paths.ACLS_PREFIXED, paths.ACL_CHANGES_PREFIXED),
}
"""Pattern type → parent of its ACL nodes, and parent of the notices of their changes."""

_TYPES = {each.label.lower(): each for each in ResourceType}
_OPERATIONS = {each.label.lower(): each for each in Operation}
_PERMISSIONS = {each.label.lower(): each for each in Permission}


def node_path(pattern: Pattern) -> str:
    """Return the path of the node with the ACLs of a pattern."""
    return f"{FORMS[pattern.pattern_type][0]}/{pattern.type.label}/{pattern.name}"


def encode_acls(acls: Iterable[Acl]) -> bytes:
    """Return the content of an ACL node, as genuine brokers write it."""
    entries = [
        {
            "principal": acl.principal,
            "permissionType": acl.permission.label,
            "operation": acl.operation.label,
            "host": acl.host,
        }
        for acl in acls
    ]
    return write_json({"version": VERSION, "acls": entries}, ascii_only=False)


def decode_acls(data: bytes) -> tuple[Acl, ...]:
    """Return the ACLs of a node, each once; an empty node has none.

    Raises:
        ValueError: the node holds no valid ACLs.
    """
    if not data:
        return ()
    try:
        node = read_json(data)
        if node["version"] != VERSION:
            raise ValueError(f"version {node['version']} of ACLs is not known")
        found = (_acl(each) for each in node["acls"])
        return tuple(dict.fromkeys(each for each in found if each is not None))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no ACLs: {error!r}") from None


def _acl(entry: Any) -> Acl | None:
    operation = _OPERATIONS.get(entry["operation"].lower())
    permission = _PERMISSIONS.get(entry["permissionType"].lower())
    principal, host = entry["principal"], entry["host"]
    if permission is None or not isinstance(principal, str) or not isinstance(host, str):
        raise ValueError(f"no ACL: {entry!r:.200}")
    if operation is None:
        # An operation of a later version, which no request here needs.
        return None
    return Acl(principal, permission, operation, host)


def encode_notice(pattern: Pattern) -> bytes:
    """Return the notice of a change."""
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{pattern.type.label}:{pattern.name}".encode()
    note = {
        "version": VERSION,
        "resourceType": pattern.type.label,
        "name": pattern.name,
        "patternType": pattern.pattern_type.name,
    }
    return write_json(note, ascii_only=False)


def decode_notice(form: PatternType, data: bytes) -> Pattern | None:
    """Return the pattern that a notice names; None for a resource type of a later version.

    Raises:
        ValueError: it is not a notice.
    """
    if form is PatternType.LITERAL:
        kind, colon, name = data.decode().partition(":")
        if not colon:
            raise ValueError(f"no notice: {data!r:.200}")
        pattern_type = PatternType.LITERAL
    else:
        try:
            note = read_json(data)
            kind, name = note["resourceType"], note["name"]
            pattern_type = PatternType[note["patternType"].upper()]
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"no notice: {error!r}") from None
    if not isinstance(name, str) or not isinstance(kind, str):
        raise ValueError(f"no notice: {data!r:.200}")
    known = _TYPES.get(kind.lower())
    return None if known is None else Pattern(known, name, pattern_type)


def ensure_acl_tree(session: ZkSession) -> None:
    """Create the parents of all ACLs and notices, as a genuine broker does when it starts."""
    for parent, _ in FORMS.values():
        for kind in ResourceType:
            session.ensure_path(f"{parent}/{kind.label}")
    for _, changes in FORMS.values():
        session.ensure_path(changes)


def read_acls(session: ZkSession, patterns: Sequence[Pattern]) -> dict[Pattern, Sequence[Acl]]:
    """Return the ACLs of each pattern, none for a pattern without a node."""
    nodes = session.get_many([node_path(each) for each in patterns])
    return {
        pattern: () if node is None else _readable(session, pattern, node[0])
        for pattern, node in zip(patterns, nodes, strict=True)
    }


def read_all_acls(session: ZkSession) -> dict[Pattern, Sequence[Acl]]:
    """Return the ACLs of the cluster by their patterns."""
    found: dict[Pattern, Sequence[Acl]] = {}
    for form, (parent, _) in FORMS.items():
        for label in children(session, parent):
            kind = _TYPES.get(label.lower())
            if kind is None or kind.label != label:
                logger.info("ACLs of an unknown resource type skipped path=%s/%s", parent, label)
                continue
            names = children(session, f"{parent}/{label}")
            acls = read_acls(session, [Pattern(kind, name, form) for name in names])
            found.update((pattern, each) for pattern, each in acls.items() if each)
    return found


def _readable(session: ZkSession, pattern: Pattern, data: bytes) -> Sequence[Acl]:
    try:
        return decode_acls(data)
    except ValueError as error:
        where = f"{node_path(pattern)}: {error}; all access is denied until the node is repaired"
        tell_unreadable(session, logger, "ACL node", where)
        return UNREADABLE


def add_acls(session: ZkSession, pattern: Pattern, acls: Iterable[Acl]) -> tuple[Acl, ...]:
    """Add ACLs to a pattern, and notify the brokers if any is new.

    Returns:
        the ACLs of the pattern now.

    Raises:
        ProtocolError: an ACL or the pattern is invalid, or the node would be too large (42).
        RegistryError: ZooKeeper does not answer, or the node is unreadable.
    """
    wanted = tuple(acls)
    check_pattern(pattern)
    for acl in wanted:
        check_acl(acl)
    return _update(session, pattern, lambda before: tuple(dict.fromkeys(before + wanted)))


def remove_acls(session: ZkSession, pattern: Pattern, acls: Iterable[Acl]) -> tuple[Acl, ...]:
    """Remove ACLs from a pattern, and notify the brokers if any was removed.

    Returns:
        the ACLs of the pattern now.

    Raises:
        RegistryError: ZooKeeper does not answer, or the node is unreadable.
    """
    unwanted = frozenset(acls)
    return _update(session, pattern, lambda before: tuple(a for a in before if a not in unwanted))


def _update(
    session: ZkSession,
    pattern: Pattern,
    change: Callable[[tuple[Acl, ...]], tuple[Acl, ...]],
) -> tuple[Acl, ...]:
    path = node_path(pattern)
    unsure = False
    for _ in range(ATTEMPTS):
        try:
            before, after = _try_update(session, path, change)
        except ConnectionLost:
            # The change may have been written: then the next attempt finds nothing to change.
            unsure = True
            continue
        if after is None:
            continue
        if before != after or unsure:
            _notify(session, pattern)
        return after
    raise RegistryError(f"{path}: the ACLs could not be changed in {ATTEMPTS} attempts")


def _notify(session: ZkSession, pattern: Pattern) -> None:
    """Write the notice of a change; a duplicate is harmless."""
    prefix = paths.acl_change(FORMS[pattern.pattern_type][1])
    for last in (False, False, True):
        try:
            session.create(prefix, encode_notice(pattern), sequential=True, parents=True)
        except ConnectionLost as error:
            if last or not session.wait_connected(session.session_timeout_ms / 1000):
                raise RegistryError(
                    f"the ACLs of {node_path(pattern)} were changed, but the brokers could not be "
                    f"notified: change them once more when ZooKeeper answers ({error})"
                ) from error
        else:
            return


def _try_update(
    session: ZkSession, path: str, change: Callable[[tuple[Acl, ...]], tuple[Acl, ...]]
) -> tuple[tuple[Acl, ...], tuple[Acl, ...] | None]:
    """Return the ACLs before and after; None as the latter if another client changed the node."""
    data, stat = read_node(session, path) or (b"", None)
    try:
        before = decode_acls(data)
    except ValueError as error:
        raise RegistryError(
            f"{path} holds no ACLs that can be read ({error}): repair or delete the node"
        ) from None
    after = change(before)
    data = encode_acls(after)
    if len(data) > MAX_NODE_BYTES:
        raise ProtocolError(
            f"{len(after)} ACLs of one resource do not fit into a node of ZooKeeper: use groups of "
            "names (prefixed patterns) or fewer principals",
            code=ErrorCode.INVALID_REQUEST,
        )
    try:
        if stat is None:
            if after:
                session.create(path, data, parents=True)
        elif after:
            session.set(path, data, stat.version)
        else:
            session.delete(path, stat.version)
    except (BadVersion, NodeExists, NoNode):
        return before, None
    return before, after
