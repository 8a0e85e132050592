"""Offsets that consumer groups keep in ZooKeeper.

    /consumers/[group]/offsets/[topic]/[n]        next offset to consume, decimal

Invariant: a commit may name the node version that was read, and then overwrites no later commit of
another writer.
"""

import logging
from collections.abc import Mapping, Sequence

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.groups import partition_numbers
from zkbroker.registry.optional_nodes import children
from zkbroker.types import PartitionKey
from zkbroker.zookeeper.errors import BadVersion, NodeExists, NoNode
from zkbroker.zookeeper.nodes import SetData
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)


def read_offset(
    session: ZkSession, group: str, topic: str, partition: int
) -> tuple[int, int] | None:
    """Return the committed offset and its node version, None without one."""
    return read_offsets(session, group, [(topic, partition)]).get((topic, partition))


def read_offsets(
    session: ZkSession, group: str, partitions: Sequence[PartitionKey]
) -> dict[PartitionKey, tuple[int, int]]:
    """Return committed offsets and their node versions; partitions without one are left out."""
    nodes = session.get_many([paths.offset(group, *key) for key in partitions])
    found: dict[PartitionKey, tuple[int, int]] = {}
    for key, node in zip(partitions, nodes, strict=True):
        if node is not None:
            try:
                found[key] = int(node[0]), node[1].version
            except ValueError:
                logger.warning("offset unreadable group=%s partition=%s-%s", group, *key)
    return found


def committed_topics(session: ZkSession, group: str) -> list[str]:
    """Return the topics for which a group has committed offsets."""
    return children(session, f"{paths.CONSUMERS}/{group}/offsets")


def committed_partitions(session: ZkSession, group: str, topic: str) -> list[int]:
    """Return the partitions of a topic for which a group has committed offsets."""
    return partition_numbers(session, paths.offsets(group, topic))


def commit_offset(
    session: ZkSession,
    group: str,
    topic: str,
    partition: int,
    offset: int,
    version: int | None = None,
) -> int:
    """Commit the next offset to consume and return its new node version.

    Args:
        session: a started session; it need not be that of a member.
        group: the group.
        topic: the topic.
        partition: the partition.
        offset: the next offset to consume.
        version: the node version that the commit depends on, -1 for "no offset yet"; None commits
            in any case.

    Raises:
        BadVersion: another client has committed since.
        ConnectionLost: the commit may have been made: read the version again.
    """
    key = (topic, partition)
    answer = commit_offsets(session, group, {key: (offset, version)})[key]
    if isinstance(answer, BadVersion):
        raise answer
    return answer


def commit_offsets(
    session: ZkSession, group: str, offsets: Mapping[PartitionKey, tuple[int, int | None]]
) -> dict[PartitionKey, int | BadVersion]:
    """Commit many offsets with pipelined requests.

    Args:
        session: a started session.
        group: the group.
        offsets: partition → (next offset, node version or -1 or None as in `commit_offset`).

    Returns:
        for each its new node version, or BadVersion if another client has committed since.
    """
    answers: dict[PartitionKey, int | BadVersion] = {}
    writes = {key: item for key, item in offsets.items() if item[1] != -1}
    results = session.set_many(
        [
            SetData(paths.offset(group, *key), b"%d" % value, -1 if version is None else version)
            for key, (value, version) in writes.items()
        ]
    )
    missing = [key for key, item in offsets.items() if item[1] == -1]
    for (key, (value, version)), result in zip(writes.items(), results, strict=True):
        if isinstance(result, NoNode):
            missing.append(key)
        elif isinstance(result, RegistryError):
            answers[key] = _own_write(session, group, key, value, version or 0)
        else:
            answers[key] = result.version
    for key in missing:
        value, version = offsets[key]
        try:
            session.create(paths.offset(group, *key), b"%d" % value, parents=True)
            answers[key] = 0
        except NodeExists:
            if version is None:
                answers[key] = session.set(paths.offset(group, *key), b"%d" % value).version
            else:
                answers[key] = _own_write(session, group, key, value, -1)
    return answers


def _own_write(
    session: ZkSession, group: str, key: PartitionKey, value: int, expected: int
) -> int | BadVersion:
    """Tell our own repeated write, whose first answer was lost, from another client's."""
    found = read_offset(session, group, *key)
    if found == (value, expected + 1):
        return expected + 1
    return BadVersion(
        f"{paths.offset(group, *key)} was committed by another client"
        + (f" (offset {found[0]})" if found else "")
    )
