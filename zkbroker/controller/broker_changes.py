"""Brokers that register, go, and register again.

    gone      their partitions get new leaders; then they leave the ISRs
    restarted gone and back between two readings: demoted where they were in sync
    joined    new or restarted: they get all metadata and the states of their replicas

Invariant: one change of the registry decides each partition once. The list of live brokers is sent
first, because a follower must know where its leader listens.
"""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from zkbroker.controller.answers import BrokerAnswers
from zkbroker.controller.channel import BrokerChannels
from zkbroker.controller.context import ControllerContext, LiveBroker
from zkbroker.controller.partitions import Partitions
from zkbroker.controller.requests import RequestBatch
from zkbroker.registry.brokers import live_brokers
from zkbroker.registry.partition_states import Key
from zkbroker.runtime.pacing import in_parts, paced
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

DECIDED_AT_ONCE = 500
"""Partitions whose leaders are decided, stored and sent together."""


@dataclass(slots=True)
class BrokerChanges:
    """Follows the live brokers, and owns `context.brokers`.

    Args: watch is set when a broker comes or goes.
    """

    session: ZkSession
    watch: Settable
    context: ControllerContext
    partitions: Partitions
    batch: RequestBatch
    channels: BrokerChannels
    answers: BrokerAnswers

    def read(self) -> dict[int, LiveBroker]:
        """Return the registered brokers."""
        found = live_brokers(self.session, self.watch)
        return {broker: LiveBroker(info, epoch) for broker, (info, epoch) in found.items()}

    def apply(self) -> tuple[set[int], list[int]]:
        """Read the registered brokers again; decide and send the consequences of a change.

        Returns:
            the brokers that are gone, and those that joined; restarted ones are among both.
        """
        before, now = self.context.brokers, self.read()
        restarted = {b for b in before.keys() & now.keys() if before[b].epoch != now[b].epoch}
        stopped = before.keys() - now.keys()
        gone = stopped | restarted
        joined = sorted(restarted | (now.keys() - before.keys()))
        if not gone and not joined:
            return gone, joined
        logger.info("brokers gone ids=%s joined ids=%s", sorted(gone), joined)
        for broker in gone:
            self.channels.drop(broker)
        self.context.shutting_down -= gone
        self.answers.forget(gone)
        self.context.brokers = now
        for broker in joined:
            self.channels.open(now[broker].info)
        self.batch.brokers_changed(now)
        decided = self._decide(stopped, restarted)
        if decided or not joined:
            self.batch.flush()
        if joined:
            self._introduce(joined, decided)
        return gone, joined

    def _decide(self, gone: set[int], restarted: set[int]) -> set[Key]:
        context, partitions = self.context, self.partitions
        decided = partitions.demote_restarted(self._touching(restarted), restarted)
        if decided:
            self.batch.flush()
        missing = [key for key in context.served() if not context.has_leader(key)]
        for some in in_parts(missing, DECIDED_AT_ONCE):
            # New leaders are sent before the next ones are decided, and before changes of ISRs.
            decided |= partitions.elect_missing(some)
            self.batch.flush()
        left = [key for key in self._touching(gone) if key not in decided]
        decided |= partitions.remove_from_isr(left, gone)
        if gone and decided:
            # The other partitions with a replica there have one more offline replica.
            self.batch.metadata(
                key for broker in gone for key in context.hosted_by(broker) if key not in decided
            )
        return set(decided)

    def _introduce(self, joined: list[int], decided: set[Key]) -> None:
        context = self.context
        self.batch.metadata(context.keys(), joined)
        self.batch.metadata(
            (key for broker in joined for key in context.hosted_by(broker)),
            context.brokers.keys() - set(joined),
        )
        self.batch.flush()
        self.send_states(joined, but=decided)
        self.batch.flush()

    def _touching(self, brokers: set[int]) -> list[Key]:
        """The partitions with a replica on one of the brokers, assigned or in sync."""
        if not brokers:
            return []
        replicas = self.context.replicas
        return [
            key
            for key in self.context.served()
            if not brokers.isdisjoint(replicas(key)) or self.context.in_isr(key, brokers)
        ]

    def send_states(self, brokers: Iterable[int], but: Collection[Key] = ()) -> None:
        """Gather the decisions for all replicas of brokers, except for some partitions."""
        wanted = set(brokers)
        for key in paced(self.session.runtime, self.context.served()):
            if key not in but and not self.context.undecided(key):
                replicas = self.context.replicas(key)
                self.batch.decided(key, [broker for broker in replicas if broker in wanted])

    def send_everything(self, broker: int) -> None:
        """Send all state to one broker, after a request to it was lost or refused."""
        if broker in self.context.brokers:
            self.batch.brokers_changed([broker])
            self.batch.metadata(self.context.keys(), [broker])
            self.batch.flush()
            self.send_states([broker])
            self.batch.flush()
