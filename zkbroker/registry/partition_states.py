"""The leader, leader epoch and ISR of each partition: the only writer of these nodes.

    .../partitions/[n]         ephemeral form: the decision        persistent form: empty
    .../partitions/[n]/state   ephemeral form: the leader's        persistent form: the decision
                               registration, in its session

The ephemeral form is that of a zkbroker cluster: `state` exists while the leader lives, and the
decision outlives it. The persistent form is that of genuine brokers, for a cluster with both.

Invariants: a decision is written under the version that was read, so that one of two concurrent
writers is refused. The controller's writes also check the version of `/controller_epoch`, so that a
deposed controller writes nothing. If both nodes hold a decision (genuine brokers, or a last clean
stop, left a persistent `state`), the one with the higher leader epoch is valid, and `state` on a
tie; the transaction of the next write removes the other one.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.controller_writes import controller_transactions
from zkbroker.registry.decisions import (
    MISSING,
    NO_LEADER,
    IsrUpdate,
    Key,
    LeaderAndIsr,
    LostLogs,
    Node,
    decode,
    judge,
    node_version,
    without,
)
from zkbroker.registry.leader_registrations import ATTEMPTS, LeaderRegistrations
from zkbroker.registry.node_json import tell_unreadable
from zkbroker.registry.state_form import StateForm
from zkbroker.runtime.pacing import paced
from zkbroker.zookeeper.nodes import Check, Create, Delete, Operation, SetData
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

__all__ = [
    "MISSING",
    "NO_LEADER",
    "IsrUpdate",
    "Key",
    "LeaderAndIsr",
    "LostLogs",
    "PartitionStates",
]


class PartitionStates:
    """Reads and writes decisions in one of the two forms.

    Args:
        session: a started session; a leader's registrations live in it.
        form: ephemeral or persistent.
    """

    def __init__(self, session: ZkSession, form: StateForm = StateForm.EPHEMERAL) -> None:
        self._session = session
        self.form = StateForm(form)
        # The copy that the next write must remove: the version of the persistent `state` (ephemeral
        # form), or of the partition's own node (persistent form).
        self._superseded: dict[Key, int] = {}
        self._registrations = LeaderRegistrations(session)
        self.unreadable: set[Key] = set()
        """Partitions whose stored decision could not be read. No decision may be made for them: the
        replicas in sync are unknown, and a wrong guess would lose messages."""

    # -- reading

    def read(self, keys: Iterable[Key]) -> dict[Key, LeaderAndIsr]:
        """Return the decisions for many partitions (pipelined); undecided ones are left out.

        A decision from the other form's node has that node's content, and the `zk_version` under
        which it is to be written to the node of this form.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        wanted = list(keys)
        nodes = self._session.get_many([paths.partition(*key) for key in wanted])
        # Most partitions whose leader died have no `state` any more.
        parents = [k for k, node in zip(wanted, nodes, strict=True) if node and node[1].children]
        below = self._session.get_many([paths.partition_state(*key) for key in parents])
        states = dict(zip(parents, below, strict=True))
        found: dict[Key, LeaderAndIsr] = {}
        read = zip(wanted, nodes, strict=True)
        for key, node in paced(self._session.runtime, read):
            state = states.get(key)
            self._superseded.pop(key, None)
            if self.form is StateForm.EPHEMERAL:
                truth = self._decided(key, node, state, version=node_version(node))
                if state is not None and not state[1].ephemeral_owner:
                    self._superseded[key] = state[1].version
            else:
                truth = self._decided(key, node, state, version=node_version(state))
                if node is not None and node[0]:
                    self._superseded[key] = node[1].version
            if truth is not None:
                found[key] = truth
            self._note_unreadable(key, node, state, known=truth is not None)
        return found

    def _note_unreadable(self, key: Key, node: Node, state: Node, *, known: bool) -> None:
        self.unreadable.discard(key)
        if known:
            return
        for path, held in (
            (paths.partition(*key), node),
            (paths.partition_state(*key), state),
        ):
            # The leader's registration is a copy, and ends with its session.
            if held is not None and held[0] and not held[1].ephemeral_owner:
                self.unreadable.add(key)
                tell_unreadable(
                    self._session,
                    logger,
                    "partition state",
                    f"{path} holds {held[0][:200]!r}: the partition is not served until a state is "
                    "written there and a controller is elected (delete /controller)",
                )

    @staticmethod
    def _decided(key: Key, node: Node, state: Node, version: int) -> LeaderAndIsr | None:
        own, left = decode(key, node), decode(key, state)
        if state is not None and state[1].ephemeral_owner:
            left = None  # the leader's copy of the decision
        if left is None or (own is not None and own.leader_epoch > left.leader_epoch):
            return None if own is None else replace(own, zk_version=version)
        return replace(left, zk_version=version)

    # -- the controller's writes

    def write(
        self, decisions: Mapping[Key, LeaderAndIsr], epoch_version: int
    ) -> dict[Key, LeaderAndIsr]:
        """Store decisions of the controller, with pipelined writes.

        Args:
            decisions: each with the `zk_version` that was read.
            epoch_version: version of `/controller_epoch` since this controller's election.

        Returns:
            the stored decisions, with their new versions. Another writer has changed the others (or
            their topic is gone): read them again.

        Raises:
            ControllerMoved: there is another controller.
            RegistryError: ZooKeeper does not answer; any of the decisions may have been stored.
        """
        created = [key for key, state in decisions.items() if state.zk_version == MISSING]
        controller_transactions(self._session, self._parents(created), epoch_version)
        keys = list(decisions)
        stored: dict[Key, LeaderAndIsr] = {}
        operations = [
            self._operations(key, decisions[key]) for key in paced(self._session.runtime, keys)
        ]
        answers = controller_transactions(self._session, operations, epoch_version)
        for key, refused in zip(keys, answers, strict=True):
            if refused is None:
                self._superseded.pop(key, None)
                state = decisions[key]
                stored[key] = replace(state, zk_version=state.zk_version + 1)
        return stored

    def _parents(self, keys: Sequence[Key]) -> list[Operation]:
        """Return the creations of parent nodes; ZooKeeper refuses existing ones, which is fine."""
        parents: list[Operation] = [
            Create(paths.partitions(topic)) for topic in sorted({key[0] for key in keys})
        ]
        if self.form is StateForm.PERSISTENT:
            parents += [Create(paths.partition(*key)) for key in keys]
        return parents

    def _operations(
        self, key: Key, state: LeaderAndIsr, *, amended: bool = False
    ) -> list[Operation]:
        here, other = self._places(key)
        data = state.to_json(amended=amended)
        operations: list[Operation] = [
            Create(here, data)
            if state.zk_version == MISSING
            else SetData(here, data, state.zk_version)
        ]
        superseded = self._superseded.get(key)
        if superseded is not None:
            operations.append(
                Delete(other, superseded)
                if self.form is StateForm.EPHEMERAL
                else SetData(other, b"", superseded)
            )
        return operations

    def _places(self, key: Key) -> tuple[str, str]:
        """Return the node of this form's decisions, and the other one."""
        node, state = paths.partition(*key), paths.partition_state(*key)
        return (node, state) if self.form is StateForm.EPHEMERAL else (state, node)

    def watched(self, key: Key) -> str:
        """Return the node whose data changes with every decision for a partition."""
        return self._places(key)[0]

    # -- the leader's writes

    def update_isr(self, changes: Mapping[Key, LeaderAndIsr]) -> dict[Key, IsrUpdate]:
        """Store ISRs that this broker, as their leader, has changed; with pipelined writes.

        Args:
            changes: leader, leader epoch and controller epoch as the leader received them, the new
                ISR, and the version that the change expects.

        Returns:
            the outcome of each. A refused change with `still_leader` may be retried under the
            version in its state; without it, the controller has made another decision.

        Raises:
            RegistryError: ZooKeeper does not answer; any of the changes may have been stored.
        """
        keys = list(changes)
        contents = {key: state.to_json() for key, state in changes.items()}
        copies: dict[Key, list[Operation]] = {}
        if self.form is StateForm.EPHEMERAL:
            copies = self._registrations.operations(contents)
        batches: list[list[Operation]] = [
            [SetData(self.watched(k), contents[k], changes[k].zk_version), *copies.get(k, ())]
            for k in keys
        ]
        outcome: dict[Key, IsrUpdate] = {}
        refused = []
        answers = self._session.transactions(batches)
        for key, failed in zip(keys, answers, strict=True):
            if failed is None:
                state = changes[key]
                self._registrations.note(key)
                stored = replace(state, zk_version=state.zk_version + 1)
                outcome[key] = IsrUpdate(stored, written=True, still_leader=True)
            else:
                self._registrations.forget(key)
                refused.append(key)
        current = self.read(refused) if refused else {}
        for key in refused:
            outcome[key] = judge(changes[key], current.get(key))
        return outcome

    def register_leader(self, states: Mapping[Key, LeaderAndIsr]) -> set[Key]:
        """Register this broker as the new leader; does nothing in the persistent form.

        Returns:
            the refused partitions: the controller has made another decision and will send it.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        if self.form is StateForm.PERSISTENT:
            return set()
        return self._registrations.register(states)

    def unregister_leader(self, keys: Iterable[Key]) -> None:
        """Remove the registrations of partitions that this broker no longer leads.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        wanted = list(keys)
        for key in wanted:
            self._registrations.forget(key)
        if self.form is StateForm.EPHEMERAL and wanted:
            self._registrations.unregister(wanted)

    # -- before a broker registers, and after the last one stops

    def raise_epochs(self, floors: Mapping[Key, int]) -> dict[Key, int]:
        """Raise stored leader epochs to at least those in this broker's logs.

        This is for logs that are adopted from another tree; call it before the broker registers.

        Args:
            floors: the last leader epoch of each log.

        Returns:
            the partitions whose epoch was raised, with the former epoch.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        if self.form is StateForm.PERSISTENT:
            return {}
        known = self.read(floors)
        nodes = self._session.get_many([paths.partition(*key) for key in floors])
        versions = {key: node_version(node) for key, node in zip(floors, nodes, strict=True)}
        raised: dict[Key, LeaderAndIsr] = {}
        for key, epoch in floors.items():
            state = known.get(key) or LeaderAndIsr(NO_LEADER, -1, (), zk_version=versions[key])
            if state.leader_epoch < epoch:
                raised[key] = replace(state, leader_epoch=epoch)
        self._session.transactions(
            [[operation] for operation in self._parents([k for k in raised if versions[k] < 0])]
        )
        batches = [self._operations(key, state, amended=True) for key, state in raised.items()]
        done = {}
        for key, refused in zip(raised, self._session.transactions(batches), strict=True):
            if refused is not None:
                raise RegistryError(f"leader epoch of {key[0]}-{key[1]} not raised: {refused}")
            done[key] = known[key].leader_epoch if key in known else -1
            self._superseded.pop(key, None)
            logger.info(
                "leader epoch raised partition=%s-%d from=%d to=%d: the log knows that epoch",
                *key,
                done[key],
                floors[key],
            )
        return done

    def leave_isrs(self, broker_id: int, keys: Iterable[Key]) -> LostLogs:
        """Take a broker out of the ISRs of partitions whose logs it has lost.

        Call it before the broker registers: a controller that finds it in an ISR may elect others
        with it, and it would count as in sync with an empty log. If the broker is the stored
        leader, a new leader epoch without a leader begins: a controller that finds it live, and
        alone, would take it for the only replica in sync. The last member of an ISR stays: no other
        replica has the acknowledged messages.

        Returns:
            the partitions that other replicas have, and those of which it is the last in sync.

        Raises:
            RegistryError: ZooKeeper does not answer, or the states change all the time.
        """
        lost = sorted(keys)
        for _ in range(ATTEMPTS):
            found = self.read(lost)
            named = {key for key, state in found.items() if broker_id in state.isr}
            changes = {
                key: without(broker_id, found[key])
                for key in sorted(named)
                if len(found[key].isr) > 1
            }
            if not changes:
                decided = {key for key, state in found.items() if state.isr}
                return LostLogs(decided - named, named)
            # `amended`: `Partitions.demote_unseen_restarts` needs the time of the decision.
            self._session.transactions(
                [self._operations(*each, amended=True) for each in changes.items()]
            )
        raise RegistryError(f"the ISRs of {len(named)} partitions change all the time")

    def leave_persistent(self, keys: Iterable[Key]) -> int:
        """Write persistent `state` nodes as genuine brokers do, when the last broker stops cleanly.

        Args:
            keys: every partition of the cluster. No other broker may be alive.

        Returns:
            how many `state` nodes were written.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        if self.form is StateForm.PERSISTENT:
            return 0
        wanted = list(keys)
        nodes = self._session.get_many([paths.partition(*key) for key in wanted])
        states = self._session.get_many([paths.partition_state(*key) for key in wanted])
        batches: list[list[Operation]] = []
        for key, node, state in zip(wanted, nodes, states, strict=True):
            decided = decode(key, node)
            if node is None or decided is None or not decided.isr:
                continue
            path = paths.partition_state(*key)
            batch: list[Operation] = [Check(paths.partition(*key), node[1].version)]
            if state is not None:
                if not state[1].ephemeral_owner:
                    continue
                batch.append(Delete(path, state[1].version))
            batches.append([*batch, Create(path, decided.to_json())])
        return sum(refused is None for refused in self._session.transactions(batches))
