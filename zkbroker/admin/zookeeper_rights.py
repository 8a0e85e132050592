"""Gives the nodes of a cluster to the brokers' login, or to everybody again.

    secure     each node gets the rights that a broker with zookeeper.set.acl=true creates it with
    unsecure   every right to everybody

The walk goes over the tree level by level. It skips a node that has the rights already, so an
interrupted walk can simply be run again. Nodes created meanwhile get rights from their creators:
set `zookeeper.set.acl` for brokers before `secure`, and remove it before `unsecure`.

Invariant: only nodes of Kafka are changed; other nodes beside them, such as other programs' if the
    cluster has no chroot, are reported and not changed. `/consumers` stays open either way: any
    member of a group writes there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.zookeeper import BadVersion, NoNode, ZkSession
from zkbroker.zookeeper.acls import ALL, OPEN, Acl, Grant, acl_for

KAFKA_ROOTS = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/controller",
    "/controller_epoch",
    "/delegation_token",
    "/feature",
    "/isr_change_notification",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/legacy07",
    "/log_dir_event_notification",
)
"""Kafka's nodes at the top of a cluster's tree, except `/consumers`."""
_ATTEMPTS = 5
_AT_ONCE = 1000


@dataclass(slots=True)
class RightsReport:
    """The result of a walk.

    Args:
        changed: nodes whose rights were replaced.
        kept: nodes that had these rights already.
        left: names at the top of the tree that are not Kafka's.
        root_open: whether the top of the tree itself stays open to everybody.
    """

    changed: int = 0
    kept: int = 0
    left: list[str] = field(default_factory=list)
    root_open: bool = False


def secure(
    session: ZkSession,
    *,
    with_root: bool = False,
    dry_run: bool = False,
) -> RightsReport:
    """Give every node of the cluster the rights that a broker with a login sets.

    Args:
        session: logged in; its logins become the owners of the nodes.
        with_root: also change `/`, if that is the top of the tree; other programs may share it.
        dry_run: count only.

    Raises:
        RegistryError: the session has no login, or a node belongs to another one.
    """
    owners = _owners(session)
    if not owners:
        raise RegistryError(
            "this session has no login, and nodes without an owner could never be changed again: "
            "set zookeeper.sasl.jaas.config (or a JAAS file) or zookeeper.auth.digest"
        )

    def wanted(path: str) -> Acl:
        return frozenset(
            grant
            for each in acl_for(path)
            for grant in (owners if each.scheme == "auth" else (each,))
        )

    return _walk(session, wanted, with_root, dry_run)


def unsecure(
    session: ZkSession,
    *,
    with_root: bool = False,
    dry_run: bool = False,
) -> RightsReport:
    """Give everybody all rights on every node of the cluster; see `secure`."""
    return _walk(session, lambda _: OPEN, with_root, dry_run)


def _owners(session: ZkSession) -> frozenset[Grant]:
    """Return the session's logins in the server's form, read from a node that it created."""
    if not session.security.logins:
        return frozenset()
    probe = session.create(
        f"{paths.CONSUMERS}/rights-", ephemeral=True, sequential=True, parents=True
    )
    try:
        (failure,) = session.set_acls([(probe, frozenset({Grant("auth", "", ALL)}), -1)])
        if failure is not None:
            raise failure
        (found,) = session.acls([probe])
        return frozenset() if found is None else found[0]
    finally:
        session.delete(probe, missing_ok=True)


def _walk(
    session: ZkSession,
    wanted: Callable[[str], Acl],
    with_root: bool,
    dry_run: bool,
) -> RightsReport:
    report = RightsReport()
    top = [f"/{name}" for name in session.children("/")]
    known = [path for path in top if path in KAFKA_ROOTS]
    others = {*KAFKA_ROOTS, paths.CONSUMERS, "/zookeeper"}
    report.left = [path for path in top if path not in others]
    # From the top down: a login that may change a node can remove its children.
    if session.chroot or with_root:
        _set(session, ["/"], lambda _: wanted(""), dry_run, report)
    (root,) = session.acls(["/"])
    report.root_open = root is not None and root[0] == OPEN
    level: Sequence[str] = known
    while level:
        below: list[str] = []
        for part in _parts(level):
            _set(session, part, wanted, dry_run, report)
            for path, names in zip(part, session.children_many(part), strict=True):
                below += [f"{path}/{name}" for name in names or ()]
        level = below
    return report


def _set(
    session: ZkSession,
    nodes: Sequence[str],
    wanted: Callable[[str], Acl],
    dry_run: bool,
    report: RightsReport,
) -> None:
    left = list(nodes)
    for _ in range(_ATTEMPTS):
        changes = []
        for path, found in zip(left, session.acls(left), strict=True):
            if found is None:
                continue
            acl, version = found
            if acl == wanted(path):
                report.kept += 1
            else:
                changes.append((path, wanted(path), version))
        if dry_run:
            report.changed += len(changes)
            return
        left = []
        for (path, _, _), failure in zip(changes, session.set_acls(changes), strict=True):
            if failure is None:
                report.changed += 1
            elif isinstance(failure, BadVersion):
                left.append(path)
            elif not isinstance(failure, NoNode):
                raise failure
        if not left:
            return
    raise RegistryError(f"other programs keep changing the rights on {left[0]}: try again later")


def _parts(level: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(level), _AT_ONCE):
        yield level[start : start + _AT_ONCE]
