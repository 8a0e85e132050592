"""The ephemeral `state` node of each partition that this broker leads, where old clients look.

    .../partitions/[n]/state   the content of the decision, in the leader's session

Invariants: a registration is made in one transaction with a check, or a change, of the decision
that it is a copy of, so that no leader registers that was replaced. It goes with the session in
which it was made; one that another session left is removed by the leader that follows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.types import PartitionKey
from zkbroker.zookeeper.nodes import Check, Create, Delete, Operation, SetData
from zkbroker.zookeeper.session import ZkSession

ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class StoredDecision:
    """Args: content of the decision's node and the version under which it is stored."""

    content: bytes
    zk_version: int


class LeaderRegistrations:
    """The registrations of one broker.

    Args:
        session: in which they live.
    """

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        # In which generation of the session each was made.
        self._made: dict[PartitionKey, int] = {}

    def note(self, key: PartitionKey) -> None:
        """Take note that what `operations` asked for was done."""
        self._made[key] = self._session.generation

    def forget(self, key: PartitionKey) -> None:
        """Look at the node again before it is written the next time."""
        self._made.pop(key, None)

    def register(self, decisions: Mapping[PartitionKey, StoredDecision]) -> set[PartitionKey]:
        """Register this broker as the leader, as these decisions say.

        Returns:
            the partitions whose decision is another one by now.

        Raises:
            RegistryError: ZooKeeper does not answer, or the nodes change all the time.
        """
        left, refused = dict(decisions), set()
        for key in left:
            # Another broker may have led meanwhile: what this one knew of the node is over.
            self.forget(key)
        attempts = 0
        while left:
            if attempts == ATTEMPTS:
                raise RegistryError(
                    f"leaders of {len(left)} partitions are not registered: their nodes change"
                )
            attempts += 1
            operations = self.operations({key: each.content for key, each in left.items()})
            answers = self._session.transactions(
                [[Check(paths.partition(*k), left[k].zk_version), *operations[k]] for k in left]
            )
            generation = self._session.generation
            for key, failed in zip(list(left), answers, strict=True):
                if failed is None:
                    self._made[key] = generation
                elif failed.index == 0:
                    refused.add(key)
                else:
                    continue  # the registration before came or went meanwhile
                del left[key]
        return refused

    def operations(
        self, contents: Mapping[PartitionKey, bytes]
    ) -> dict[PartitionKey, list[Operation]]:
        """Return what makes `state` this session's, with these contents."""
        unknown = [k for k in contents if self._made.get(k) != self._session.generation]
        nodes = self._session.get_many([paths.partition_state(*key) for key in unknown])
        present = dict(zip(unknown, nodes, strict=True))
        found: dict[PartitionKey, list[Operation]] = {}
        for key, data in contents.items():
            path = paths.partition_state(*key)
            if key not in present:
                found[key] = [SetData(path, data)]
                continue
            node = present[key]
            if node is None:
                found[key] = [Create(path, data, ephemeral=True)]
            elif node[1].ephemeral_owner == self._session.session_id:
                found[key] = [SetData(path, data, node[1].version)]
            else:
                found[key] = [Delete(path, node[1].version), Create(path, data, ephemeral=True)]
        return found

    def unregister(self, keys: Iterable[PartitionKey]) -> None:
        """Remove registrations that are this session's.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        wanted = list(keys)
        nodes = self._session.get_many([paths.partition_state(*key) for key in wanted])
        self._session.transactions(
            [
                [Delete(paths.partition_state(*key), node[1].version)]
                for key, node in zip(wanted, nodes, strict=True)
                if node is not None and node[1].ephemeral_owner == self._session.session_id
            ]
        )
