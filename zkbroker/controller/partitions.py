"""Decides for partitions, stores the decisions, and puts them into the batch.

Invariants: a decision is stored, under the version in the context, before it is put into the batch.
If another writer has changed the partition meanwhile, it is read and decided again. A rule that
decides nothing is applied again to the stored state, because leaders change ISRs and the context
learns of it late. Every decision raises the leader epoch by one.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from zkbroker.controller import leader_rules
from zkbroker.controller.context import ControllerContext
from zkbroker.controller.leader_rules import Election
from zkbroker.controller.requests import RequestBatch
from zkbroker.errors import RegistryError
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.partition_states import NO_LEADER, Key, LeaderAndIsr, PartitionStates
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import paced

logger = logging.getLogger(__name__)

ATTEMPTS = 20

Rule = Callable[[Key], Election | None]
"""Return the decision for a partition; None for none."""


@dataclass(slots=True)
class ElectionCounts:
    """How many leaders were elected, and how many of them were not in sync."""

    elections: int = 0
    unclean: int = 0


@dataclass(slots=True)
class Partitions:
    """The partitions under one controller's election.

    Args:
        epoch_version: version of `/controller_epoch` since the election.
        elected: whether the session in which this controller was elected still lives.
    """

    runtime: Runtime
    context: ControllerContext
    states: PartitionStates
    batch: RequestBatch
    epoch: int
    epoch_version: int
    counts: ElectionCounts = field(default_factory=ElectionCounts)
    elected: Callable[[], bool] = lambda: True

    # -- decisions for events

    def elect_missing(self, keys: Iterable[Key]) -> dict[Key, LeaderAndIsr]:
        """Decide for new partitions, and elect leaders where there is none.

        Returns:
            the decisions, by partition.
        """
        wanted = [
            key for key in keys if not self.context.ending(key) and not self.context.has_leader(key)
        ]
        new = {key for key in wanted if self.context.undecided(key)}
        decided = self._decide(wanted, self._missing_leader, read_again=True)
        for key in paced(self.runtime, decided):
            state = self.context.states[key]
            live = self.context.online_replicas(key)
            created = state.isr if key in new else ()
            self.batch.decided(key, {*created, *live}, new=key in new)
        self.batch.metadata(decided)
        return decided

    def remove_from_isr(
        self, keys: Iterable[Key], lost: Collection[int]
    ) -> dict[Key, LeaderAndIsr]:
        """Remove replicas on brokers that are gone (or about to stop) from their ISRs.

        Returns:
            the decisions, by partition.
        """

        def rule(key: Key) -> Election | None:
            state = self.context.states.get(key)
            if state is None or not state.isr:
                return None
            if state.leader in lost and not self.context.ending(key):
                # The state read after a conflict may have other replicas in sync, which can lead.
                elected = self._missing_leader(key)
                if elected is not None:
                    return elected
            return leader_rules.without_replicas(state.leader, state.isr, lost)

        decided = self._decide(keys, rule, read_again=True)
        for key in paced(self.runtime, decided):
            self.batch.decided(key, [b for b in self.context.replicas(key) if b not in lost])
        self.batch.metadata(decided)
        return decided

    def remove_offline_followers(self, keys: Iterable[Key]) -> None:
        """Remove followers from ISRs that they entered when they were already gone.

        Their leader did not know. It would keep them until the next append, which would then wait
        for them.
        """
        lost: dict[int, list[Key]] = {}
        for key in keys:
            state = self.context.states.get(key)
            if state is None:
                continue
            for broker in state.isr:
                if broker != state.leader and not self.context.online(key, broker):
                    lost.setdefault(broker, []).append(key)
        for broker in sorted(lost):
            self.remove_from_isr(lost[broker], {broker})

    def demote_restarted(
        self, keys: Iterable[Key], restarted: Collection[int]
    ) -> dict[Key, LeaderAndIsr]:
        """Decide again for partitions with restarted brokers in the ISR.

        A restarted broker may have lost unflushed messages. Replicas that stayed are preferred, and
        a restarted leader never continues in its leader epoch: two messages could then have the
        same offset and epoch.

        Args:
            keys: the partitions to look at.
            restarted: the brokers; live ones.

        Returns:
            the decisions, by partition.
        """
        rule = partial(self._without_restarted, restarted=set(restarted))
        return self._decide_and_send(keys, rule, read_again=True)

    def demote_unseen_restarts(self, keys: Iterable[Key]) -> dict[Key, LeaderAndIsr]:
        """`demote_restarted` for brokers that registered after the last decision.

        No controller noticed that they were gone.
        """

        def rule(key: Key) -> Election | None:
            state = self.context.states.get(key)
            if state is None or not state.zxid:
                return None
            brokers = self.context.brokers
            restarted = {b for b in state.isr if b in brokers and brokers[b].epoch > state.zxid}
            return self._without_restarted(key, restarted)

        return self._decide_and_send(keys, rule)

    def _without_restarted(self, key: Key, restarted: set[int]) -> Election | None:
        state = self.context.states.get(key)
        if state is None or restarted.isdisjoint(state.isr):
            return None
        return leader_rules.without_restarted(
            restarted & set(state.isr),
            self.context.replicas(key),
            Election(state.leader, state.isr),
            self.context.electable(key),
        )

    def elect_preferred(self, keys: Iterable[Key]) -> dict[Key, LeaderAndIsr]:
        """Make first replicas leaders again, where they may."""

        def rule(key: Key) -> Election | None:
            state = self.context.states.get(key)
            replicas = self.context.replicas(key)
            if state is None or not replicas or state.leader == replicas[0]:
                return None
            return leader_rules.preferred(replicas, state.isr, self.context.electable(key))

        led_by_others = [key for key in keys if not self.context.led_by_first(key)]
        return self._decide_and_send(led_by_others, rule, read_again=True)

    def move_leaders(self, keys: Iterable[Key]) -> dict[Key, LeaderAndIsr]:
        """Elect other leaders for the partitions that brokers about to stop lead."""
        leaving = self.context.shutting_down

        def rule(key: Key) -> Election | None:
            state = self.context.states.get(key)
            if state is None or state.leader not in leaving:
                return None
            return leader_rules.controlled_shutdown(
                self.context.replicas(key), state.isr, self.context.electable(key), leaving
            )

        return self._decide_and_send(keys, rule, read_again=True)

    def elect_among(self, key: Key, replicas: Sequence[int], dropped: Collection[int]) -> bool:
        """Decide a partition for its new replicas: a leader among them, an ISR without the others.

        If the leader is one of them, it stays; the leader epoch rises nevertheless. Nothing is
        decided while one of them is not in sync: it may have left the ISR since the state was read.
        """

        def rule(wanted: Key) -> Election | None:
            state = self.context.states.get(wanted)
            if state is None or not set(replicas) <= set(state.isr):
                return None
            isr = tuple(broker for broker in state.isr if broker not in dropped)
            live = self.context.electable(wanted, replicas)
            if state.leader in live and state.leader in isr:
                return Election(state.leader, isr)
            return leader_rules.reassigned(replicas, isr, live)

        return bool(self._decide([key], rule))

    def raise_epoch(self, key: Key) -> bool:
        """Store the same decision in a new leader epoch."""

        def rule(wanted: Key) -> Election | None:
            state = self.context.states.get(wanted)
            return None if state is None else Election(state.leader, state.isr)

        return bool(self._decide([key], rule))

    def read_again(self, keys: Iterable[Key]) -> None:
        """Read the stored states of partitions.

        Raises:
            ControllerMoved: a later controller has decided one of them.
        """
        wanted = list(keys)
        if not wanted:
            return
        found = self.states.read(wanted)
        for key in wanted:
            state = found.get(key)
            if state is None:
                self.context.states.pop(key, None)
                continue
            # If such an epoch was there when the term began, the tree comes from another cluster.
            if state.controller_epoch > self.epoch and state != self.context.states.get(key):
                epoch = state.controller_epoch
                raise ControllerMoved(f"a controller of epoch {epoch} decided {key}")
            self.context.states[key] = state

    # -- deciding and storing

    def _missing_leader(self, key: Key) -> Election | None:
        context = self.context
        replicas, live = context.replicas(key), context.electable(key)
        state = context.states.get(key)
        if state is None:
            return leader_rules.new_partition(replicas, live)
        if not state.isr:
            # A release without replication wrote this state: only the first replica has messages.
            return leader_rules.new_partition(replicas[:1], live)
        if context.online(key, state.leader):
            return None
        return leader_rules.offline_partition(
            replicas, state.isr, live, unclean=context.unclean(key[0])
        )

    def _decide_and_send(
        self, keys: Iterable[Key], rule: Rule, *, read_again: bool = False
    ) -> dict[Key, LeaderAndIsr]:
        decided = self._decide(keys, rule, read_again=read_again)
        for key in paced(self.runtime, decided):
            self.batch.decided(key, self.context.online_replicas(key))
        self.batch.metadata(decided)
        return decided

    def _decide(
        self, keys: Iterable[Key], rule: Rule, *, read_again: bool = False
    ) -> dict[Key, LeaderAndIsr]:
        """Store a rule's decisions; repeat for each partition whose state changed meanwhile.

        Args:
            keys: the partitions.
            rule: decides.
            read_again: whether a rule that decides nothing is applied again to the stored state.

        Raises:
            ControllerMoved: there is another controller.
            RegistryError: ZooKeeper does not answer.
        """
        left = list(keys)
        done: dict[Key, LeaderAndIsr] = {}
        looked: set[Key] = set()
        for _ in range(ATTEMPTS):
            elections = self._elections(left, rule)
            if read_again:
                nothing = [key for key in left if key not in elections and key not in looked]
                self.read_again(nothing)
                elections |= self._elections(nothing, rule)
                looked.update(left)
            if not elections:
                return done
            wanted = {key: self._decision(key, found) for key, found in elections.items()}
            if not self.elected():
                # The live brokers may have been read in a later session in which this broker is not
                # registered yet: it would count itself as dead.
                raise ControllerMoved("the session of this controller's election is over")
            stored = self.states.write(wanted, self.epoch_version)
            for key, state in stored.items():
                self._count(key, elections[key], state)
            self.context.states |= stored
            done |= stored
            left = [key for key in wanted if key not in stored]
            if not left:
                return done
            self.read_again(left)
        raise RegistryError(
            f"partition {left[0][0]}-{left[0][1]} changed during each of {ATTEMPTS} writes"
        )

    def _elections(self, keys: Iterable[Key], rule: Rule) -> dict[Key, Election]:
        return {
            key: found
            for key in paced(self.runtime, keys)
            if key not in self.states.unreadable
            # A broker that has deleted its replica would create it again.
            and not self.context.ending(key)
            and (found := rule(key)) is not None
        }

    def _decision(self, key: Key, election: Election) -> LeaderAndIsr:
        state = self.context.states.get(key)
        if state is None:
            return LeaderAndIsr(election.leader, 0, election.isr, self.epoch)
        return LeaderAndIsr(
            election.leader, state.leader_epoch + 1, election.isr, self.epoch, state.zk_version
        )

    def _count(self, key: Key, election: Election, state: LeaderAndIsr) -> None:
        before = self.context.states.get(key)
        if before is None or before.leader == state.leader or state.leader == NO_LEADER:
            return
        self.counts.elections += 1
        if election.unclean:
            self.counts.unclean += 1
            logger.warning(
                "unclean leader election partition=%s-%d leader=%d epoch=%d isr_before=%s: "
                "acknowledged messages may be lost",
                *key,
                state.leader,
                state.leader_epoch,
                list(before.isr),
            )
