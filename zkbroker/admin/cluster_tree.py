"""Checks whether a ZooKeeper address names a cluster, and finds others in that ZooKeeper.

    /brokers/ids/[id]     brokers run: the address is right
    /cluster/id, or a child of /brokers/topics
                          a cluster whose brokers are stopped
    neither               a wrong or forgotten chroot, or a ZooKeeper without a cluster

Invariant: nothing is created, and at most `MAX_SEARCHED` nodes are read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from zkbroker.config.zookeeper_security import UNPROTECTED, ZooKeeperSecurity
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.errors import NoNode

MAX_DEPTH = 3
"""Levels of a chroot that are searched."""
MAX_SEARCHED = 2_000
MAX_NAMED = 5
_OF_A_CLUSTER = frozenset(
    ["zookeeper", *(path.split("/")[1] for path in (*paths.PERSISTENT, paths.LEGACY07_VIEWS))]
)
"""Nodes below which no chroot lies: those of ZooKeeper itself and those of a cluster."""


@dataclass(frozen=True, slots=True)
class NoBrokers:
    """No broker is registered under an address.

    Args:
        text: message with a remedy.
        stopped: whether there is a cluster whose brokers are stopped.
        elsewhere: chroots under which brokers are registered, `/` for the root.
    """

    text: str
    stopped: bool
    elsewhere: tuple[str, ...] = ()


def find_no_brokers(session: ZkSession) -> NoBrokers | None:
    """Return why there is no running cluster at an address; None if brokers are registered.

    Args:
        session: a started session under the chroot in question, which need not exist.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """
    if _children(session, paths.BROKER_IDS):
        return None
    stopped = bool(_children(session, paths.TOPICS)) or session.exists(paths.CLUSTER_ID) is not None
    with ZkSession(session.hosts, security=session.security) as whole:
        elsewhere, searched_all = find_brokers(whole)
    text = f"no broker is registered under {session.hosts}{session.chroot or '/'}"
    if elsewhere:
        named = ", ".join(f"{session.hosts}{chroot}" for chroot in elsewhere[:MAX_NAMED])
        more = f" and {len(elsewhere) - MAX_NAMED} more" if len(elsewhere) > MAX_NAMED else ""
        text += f"; there are some under {named}{more}: "
        text += "start its brokers, or correct the path" if stopped else "correct the path"
    elif stopped:
        text += ": start its brokers"
    else:
        text += " or elsewhere in this ZooKeeper" if searched_all else ""
        text += ": start a broker, or correct the address"
    return NoBrokers(text, stopped, tuple(elsewhere))


def require_cluster(connect: str, security: ZooKeeperSecurity = UNPROTECTED) -> None:
    """Check that brokers are registered under a ZooKeeper address; nothing is created there.

    Raises:
        RegistryError: there are none; the text names where there are some.
    """
    with ZkSession(connect, make_chroot=False, security=security) as session:
        found = find_no_brokers(session)
    if found is not None:
        raise RegistryError(found.text)


def find_brokers(session: ZkSession) -> tuple[list[str], bool]:
    """Return the chroots of a ZooKeeper under which brokers are registered.

    Args:
        session: a started session without a chroot.

    Returns:
        the chroots, the shortest first; and whether all nodes up to `MAX_DEPTH` were read.
    """
    found: list[str] = []
    level = [""]
    searched = 0
    for depth in range(MAX_DEPTH + 1):
        stats = session.exists_many([f"{chroot}{paths.BROKER_IDS}" for chroot in level])
        found += [
            chroot or "/"
            for chroot, stat in zip(level, stats, strict=True)
            if stat is not None and stat.children
        ]
        searched += len(level)
        if depth == MAX_DEPTH:
            break
        below: list[str] = []
        for chroot in level:
            below += [
                f"{chroot}/{name}"
                for name in _children(session, chroot or "/")
                if name not in _OF_A_CLUSTER
            ]
            if searched + len(below) > MAX_SEARCHED:
                return found, False
        level = below
    return found, True


def _children(session: ZkSession, path: str) -> Sequence[str]:
    """The names below a node; none where it does not exist."""
    try:
        return session.children(path)
    except NoNode:
        return []
