"""The ephemeral `state` node of each partition that this broker leads, for old clients.

    .../partitions/[n]/state   the content of the decision, in the leader's session

Invariants: one transaction makes a registration and checks, or changes, the decision that it
copies, so that a replaced leader cannot register. A registration ends with its session; one that
another session left is replaced by the next leader.
"""

from collections.abc import Iterable, Mapping

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.decisions import LeaderAndIsr
from zkbroker.types import PartitionKey
from zkbroker.zookeeper.nodes import Check, Create, Delete, Operation, SetData
from zkbroker.zookeeper.session import ZkSession

ATTEMPTS = 5


class LeaderRegistrations:
    """The registrations of one broker.

    Args:
        session: a started session, in which they live.
    """

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        # Partition → the generation of the session in which its registration was made.
        self._made: dict[PartitionKey, int] = {}

    def note(self, key: PartitionKey) -> None:
        """Note that the `operations` of a partition were carried out."""
        self._made[key] = self._session.generation

    def forget(self, key: PartitionKey) -> None:
        """Read the node again before the next write to it."""
        self._made.pop(key, None)

    def register(self, decisions: Mapping[PartitionKey, LeaderAndIsr]) -> set[PartitionKey]:
        """Register this broker as the leader of partitions.

        Args:
            decisions: the decision of each partition, with the version under which it is stored.

        Returns:
            the partitions whose decision has changed since.

        Raises:
            RegistryError: ZooKeeper does not answer, or the nodes change all the time.
        """
        left = dict(decisions)
        refused: set[PartitionKey] = set()
        for key in left:
            # Another broker may have led in the meantime: read the node again.
            self.forget(key)
        for _ in range(ATTEMPTS):
            if not left:
                break
            operations = self.operations({key: each.to_json() for key, each in left.items()})
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
                    continue  # an earlier registration appeared or vanished: try again
                del left[key]
        if left:
            raise RegistryError(
                f"leaders of {len(left)} partitions are not registered: their nodes change"
            )
        return refused

    def operations(
        self, contents: Mapping[PartitionKey, bytes]
    ) -> dict[PartitionKey, list[Operation]]:
        """Return the operations that make each `state` node this session's, with these contents."""
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
        """Remove registrations of this session.

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
