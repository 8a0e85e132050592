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


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Args: gone includes restarted brokers, as joined does."""

    gone: frozenset[int] = frozenset()
    joined: tuple[int, ...] = ()


class BrokerChanges:
    """Follows the live brokers.

    Args:
        session: a started session.
        watch: set when a broker comes or goes.
        context: the controller's state; this class owns `brokers`.
        partitions: decides.
        batch: gathers requests.
        channels: the connections to brokers.
        answers: the brokers' answers.
    """

    def __init__(
        self,
        session: ZkSession,
        watch: Settable,
        context: ControllerContext,
        partitions: Partitions,
        batch: RequestBatch,
        channels: BrokerChannels,
        answers: BrokerAnswers,
    ) -> None:
        self._session = session
        self._watch = watch
        self._context = context
        self._partitions = partitions
        self._batch = batch
        self._channels = channels
        self._answers = answers

    def read(self) -> dict[int, LiveBroker]:
        """Return the registered brokers."""
        found = live_brokers(self._session, self._watch)
        return {broker: LiveBroker(info, epoch) for broker, (info, epoch) in found.items()}

    def apply(self) -> BrokerChange:
        """Read the registered brokers again; decide and send the consequences of a change."""
        before, now = self._context.brokers, self.read()
        restarted = {b for b in before.keys() & now.keys() if before[b].epoch != now[b].epoch}
        gone = before.keys() - now.keys()
        joined = tuple(sorted(restarted | (now.keys() - before.keys())))
        change = BrokerChange(frozenset(gone | restarted), joined)
        if not change.gone and not joined:
            return change
        logger.info("brokers gone ids=%s joined ids=%s", sorted(change.gone), list(joined))
        for broker in change.gone:
            self._channels.drop(broker)
        self._context.shutting_down -= change.gone
        self._answers.forget(set(change.gone))
        self._context.brokers = now
        for broker in joined:
            self._channels.open(now[broker].info)
        self._batch.brokers_changed(now)
        decided = self._decide(gone, restarted)
        if decided or not joined:
            self._batch.flush()
        if joined:
            self._introduce(joined, decided)
        return change

    def _decide(self, gone: set[int], restarted: set[int]) -> set[Key]:
        context, partitions = self._context, self._partitions
        decided = partitions.demote_restarted(self._touching(restarted), restarted)
        if decided:
            self._batch.flush()
        missing = [key for key in context.served() if not context.has_leader(key)]
        for some in in_parts(missing, DECIDED_AT_ONCE):
            # New leaders are sent before the next ones are decided, and before changes of ISRs.
            decided |= partitions.elect_missing(some)
            self._batch.flush()
        left = [key for key in self._touching(gone) if key not in decided]
        decided |= partitions.remove_from_isr(left, gone)
        if gone and decided:
            # The other partitions with a replica there have one more offline replica.
            self._batch.metadata(
                key for broker in gone for key in context.hosted_by(broker) if key not in decided
            )
        return set(decided)

    def _introduce(self, joined: tuple[int, ...], decided: set[Key]) -> None:
        context = self._context
        self._batch.metadata(context.keys(), joined)
        self._batch.metadata(
            (key for broker in joined for key in context.hosted_by(broker)),
            context.brokers.keys() - set(joined),
        )
        self._batch.flush()
        self.send_states(joined, but=decided)
        self._batch.flush()

    def _touching(self, brokers: set[int]) -> list[Key]:
        """The partitions with a replica on one of the brokers, assigned or in sync."""
        if not brokers:
            return []
        replicas = self._context.replicas
        return [
            key
            for key in self._context.served()
            if not brokers.isdisjoint(replicas(key)) or self._context.in_isr(key, brokers)
        ]

    def send_states(self, brokers: Iterable[int], but: Collection[Key] = ()) -> None:
        """Gather the decisions for all replicas of brokers, except for some partitions."""
        wanted = set(brokers)
        for key in paced(self._session.runtime, self._context.served()):
            if key not in but and not self._context.undecided(key):
                replicas = self._context.replicas(key)
                self._batch.decided(key, [broker for broker in replicas if broker in wanted])

    def send_everything(self, broker: int) -> None:
        """Send all state to one broker, after a request to it was lost or refused."""
        if broker in self._context.brokers:
            self._batch.brokers_changed([broker])
            self._batch.metadata(self._context.keys(), [broker])
            self._batch.flush()
            self.send_states([broker])
            self._batch.flush()
