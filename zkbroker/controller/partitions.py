"""Decides for partitions, stores the decision, and notes whom to tell.

Invariant: a decision is stored before it is put into the batch, under the version that the context
knows; where somebody else has changed the partition meanwhile it is read again and decided anew.
Nothing is left undecided for what the context knows alone: leaders change ISRs, and tell it late.
Every decision raises the leader epoch by one.
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
"""What is to be decided for a partition now; None for nothing."""


@dataclass(slots=True)
class ElectionCounts:
    """How many leaders were elected, and how many of them were not in sync."""

    elections: int = 0
    unclean: int = 0


@dataclass(slots=True)
class Partitions:
    """The partitions under one controller's election.

    Args:
        runtime: whose other tasks get their turn in between.
        context: what the controller knows.
        states: where decisions are stored.
        batch: where those who are to be told are noted.
        epoch: the controller's.
        epoch_version: version of `/controller_epoch` since its election.
        counts: where elections are counted.
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

    # -- what events ask for

    def elect_missing(self, keys: Iterable[Key]) -> dict[Key, LeaderAndIsr]:
        """Decide for new partitions, and elect leaders where there is none.

        Returns:
            what was decided, by partition.
        """
        wanted = [
            key for key in keys if not self.context.ending(key) and not self.context.has_leader(key)
        ]
        new = {key for key in wanted if self.context.undecided(key)}
        decided = self._decide(wanted, self._missing_leader, read_again=True)
        for key in paced(self.runtime, decided):
            state = self.context.states[key]
            live = self.context.online_replicas(key)
            told = state.isr if key in new else live
            self.batch.decided(key, {*told, *live}, new=key in new)
        self.batch.metadata(decided)
        return decided

    def lose_replicas(self, keys: Iterable[Key], lost: Collection[int]) -> dict[Key, LeaderAndIsr]:
        """Take replicas on brokers that are gone (or leave) out of their ISRs.

        Returns:
            what was decided, by partition.
        """

        def rule(key: Key) -> Election | None:
            state = self.context.states.get(key)
            if state is None or not state.isr:
                return None
            if state.leader in lost and not self.context.ending(key):
                # What was read after a conflict may name others in sync, who can lead.
                elected = self._missing_leader(key)
                if elected is not None:
                    return elected
            return leader_rules.without_replicas(state.leader, state.isr, lost)

        decided = self._decide(keys, rule, read_again=True)
        for key in paced(self.runtime, decided):
            self.batch.decided(key, [b for b in self.context.replicas(key) if b not in lost])
        self.batch.metadata(decided)
        return decided

    def distrust(self, keys: Iterable[Key], back: Collection[int]) -> dict[Key, LeaderAndIsr]:
        """Decide anew where replicas in sync went and came back.

        Such a broker may have lost what was not on its disk. Those that did not go are preferred;
        and in no case does it go on under the leader epoch that it led under before: two messages
        could have the same offset and epoch then.

        Args:
            keys: the partitions to look at.
            back: the brokers; those that are live are meant.

        Returns:
            what was decided, by partition.
        """
        rule = partial(self._without_trust_in, back=set(back))
        return self._decide_and_tell(keys, rule, read_again=True)

    def renew(self, keys: Iterable[Key]) -> dict[Key, LeaderAndIsr]:
        """`distrust` replicas that registered after the last decision: nobody saw them go."""

        def rule(key: Key) -> Election | None:
            state = self.context.states.get(key)
            if state is None or not state.zxid:
                return None
            brokers = self.context.brokers
            back = {b for b in state.isr if b in brokers and brokers[b].epoch > state.zxid}
            return self._without_trust_in(key, back)

        return self._decide_and_tell(keys, rule)

    def _without_trust_in(self, key: Key, back: set[int]) -> Election | None:
        state = self.context.states.get(key)
        if state is None or back.isdisjoint(state.isr):
            return None
        return leader_rules.without_trust_in(
            back & set(state.isr),
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
        return self._decide_and_tell(led_by_others, rule, read_again=True)

    def move_leaders(self, keys: Iterable[Key]) -> dict[Key, LeaderAndIsr]:
        """Give partitions led by a broker that is about to stop to other replicas."""
        leaving = self.context.shutting_down

        def rule(key: Key) -> Election | None:
            state = self.context.states.get(key)
            if state is None or state.leader not in leaving:
                return None
            return leader_rules.controlled_shutdown(
                self.context.replicas(key), state.isr, self.context.electable(key), leaving
            )

        return self._decide_and_tell(keys, rule, read_again=True)

    def elect_among(self, key: Key, replicas: Sequence[int], dropped: Collection[int]) -> bool:
        """Decide a partition for its new replicas: a leader among them, an ISR without the others.

        The one that leads already stays; the leader epoch is raised all the same.
        """

        def rule(wanted: Key) -> Election | None:
            state = self.context.states.get(wanted)
            if state is None:
                return None
            isr = tuple(broker for broker in state.isr if broker not in dropped)
            live = self.context.electable(wanted, replicas)
            if state.leader in live and state.leader in isr:
                return Election(state.leader, isr)
            return leader_rules.reassigned(replicas, isr, live)

        return bool(self._decide([key], rule, read_again=True))

    def raise_epoch(self, key: Key) -> bool:
        """Decide the same again, in a new leader epoch."""

        def rule(wanted: Key) -> Election | None:
            state = self.context.states.get(wanted)
            return None if state is None else Election(state.leader, state.isr)

        return bool(self._decide([key], rule))

    def read_again(self, keys: Iterable[Key]) -> None:
        """Take what is stored for partitions.

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
            # What stood there at the beginning is of a tree from elsewhere: see `begin`.
            if state.controller_epoch > self.epoch and state != self.context.states.get(key):
                epoch = state.controller_epoch
                raise ControllerMoved(f"a controller of epoch {epoch} decided {key}")
            self.context.states[key] = state

    # -- how it is done

    def _missing_leader(self, key: Key) -> Election | None:
        context = self.context
        replicas, live = context.replicas(key), context.electable(key)
        state = context.states.get(key)
        if state is None:
            return leader_rules.new_partition(replicas, live)
        if not state.isr:
            # A release without replication served it at the first replica, and nowhere else.
            return leader_rules.new_partition(replicas[:1], live)
        if context.online(key, state.leader):
            return None
        return leader_rules.offline_partition(
            replicas, state.isr, live, unclean=context.unclean(key[0])
        )

    def _decide_and_tell(
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
        """Store what a rule says, for each partition until it is stored or nothing is to be done.

        Args:
            keys: the partitions.
            rule: what is to be decided.
            read_again: whether a rule that finds nothing is asked again with what is stored.

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
                # What was read last was read in a later session, which may not be registered yet:
                # this broker itself would be taken for dead.
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
            f"partition {left[0][0]}-{left[0][1]} is changed by others all the time"
        )

    def _elections(self, keys: Iterable[Key], rule: Rule) -> dict[Key, Election]:
        return {
            key: found
            for key in paced(self.runtime, keys)
            if key not in self.states.unreadable
            # Who was told to delete it would make it anew.
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
