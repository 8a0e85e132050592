"""Offsets of a group in ZooKeeper, safe against members that unknowingly lost their partitions.

    /consumers/[group]/offsets/[topic]/[partition] = next offset to consume, decimal

Invariant: a member writes only if the node still has the version it knows. A member that lost its
partition while it slept cannot overwrite its successor's offset: the successor's first commit
changed the version. When the condition fails, the owner node tells the two cases apart: another
client wrote while we own the partition (JVM members and tools write unconditionally), or we lost
it.
"""

import logging
from collections.abc import Iterable, Mapping

from zkbroker.registry import group_offsets, groups
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import BadVersion, ZkSession

logger = logging.getLogger(__name__)

_NO_OFFSET = -1


class ZooKeeperOffsets:
    """The offsets of one group, as one member sees them."""

    def __init__(self, session: ZkSession, group: str, consumer_id: str) -> None:
        self._session = session
        self._group = group
        self._consumer_id = consumer_id
        self._versions: dict[PartitionKey, int] = {}

    def read(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, int | None]:
        """Return committed offsets, None where there is none; remember their versions for commits.

        Raises:
            RegistryError: ZooKeeper did not answer.
        """
        keys = list(partitions)
        found = group_offsets.read_offsets(self._session, self._group, keys)
        offsets: dict[PartitionKey, int | None] = {}
        for key in keys:
            offset, version = found.get(key, (None, _NO_OFFSET))
            offsets[key] = offset
            self._versions[key] = version
        return offsets

    def commit(self, offsets: Mapping[PartitionKey, int]) -> set[PartitionKey]:
        """Commit offsets of partitions that this member owns.

        Returns:
            The partitions whose offsets were refused, since another member owns them now.

        Raises:
            RegistryError: ZooKeeper did not answer; some offsets may have been written.
        """
        if not offsets:
            return set()
        unknown = [key for key in offsets if key not in self._versions]
        if unknown:
            self.read(unknown)
        refused = self._write(offsets)
        if not refused:
            return set()
        mine = self._owned(refused)
        if mine:
            # Another client wrote, and we are the owner: overwrite it.
            self.read(mine)
            refused = (refused - mine) | self._write({key: offsets[key] for key in mine})
        if refused:
            logger.warning("commit refused group=%s partitions=%s", self._group, sorted(refused))
        return refused

    def forget(self) -> None:
        """Forget all node versions: another member may own the partitions next."""
        self._versions.clear()

    def _write(self, offsets: Mapping[PartitionKey, int]) -> set[PartitionKey]:
        answers = group_offsets.commit_offsets(
            self._session,
            self._group,
            {key: (offset, self._versions[key]) for key, offset in offsets.items()},
        )
        refused = set()
        for key, answer in answers.items():
            if isinstance(answer, BadVersion):
                refused.add(key)
            else:
                self._versions[key] = answer
        return refused

    def _owned(self, keys: Iterable[PartitionKey]) -> set[PartitionKey]:
        owned = set()
        for topic, partition in keys:
            thread_id = groups.owner(self._session, self._group, topic, partition)
            if thread_id is not None and thread_id.rpartition("-")[0] == self._consumer_id:
                owned.add((topic, partition))
        return owned
