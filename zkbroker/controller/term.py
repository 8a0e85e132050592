"""One term of office: from an election until another controller is elected or something fails.

    begin    read and elect the partitions that dead brokers led, as far as this broker knows them
             -> read the rest -> elect missing leaders -> send all state to every broker
    work     something in ZooKeeper changed: read it, decide, store, send
    posted   a broker answered, or a broker or client asks for something

Invariants: one task runs all of it, one step after the other. A decision is stored before it is
sent. A term that failed is dropped, and the next one starts with `begin`, which needs nothing of
the failed term, so no stored decision stays unsent. This broker's knowledge of leaders before its
election only determines which partitions are read first: each is decided by its stored state.
"""

import logging
from collections.abc import Callable, Collection, Iterable

from zkbroker.controller.answers import BrokerAnswers
from zkbroker.controller.broker_changes import DECIDED_AT_ONCE, BrokerChanges
from zkbroker.controller.channel import BrokerChannels
from zkbroker.controller.context import ControllerContext, TermSettings
from zkbroker.controller.deletion import TopicDeletion
from zkbroker.controller.leader_moves import LeaderMoves
from zkbroker.controller.partitions import ElectionCounts, Partitions
from zkbroker.controller.reassignment import Reassignment
from zkbroker.controller.requests import RequestBatch
from zkbroker.registry.controller_writes import check_elected
from zkbroker.registry.notifications import isr_changes, log_dir_failures, remove_notes
from zkbroker.registry.operator_requests import finish_election, read_requests
from zkbroker.registry.partition_states import Key, LeaderAndIsr, PartitionStates
from zkbroker.registry.topics_watch import TopicsReader
from zkbroker.runtime.pacing import in_parts
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

BROKERS = "brokers"
TOPICS = "topics"
REQUESTS = "requests"
ISR_CHANGES = "isr changes"
LOG_DIRS = "log directories"
OFFLINE_REPLICAS = "offline replicas"

Signal = str | Key
"""One of the names above, or a partition whose state was written."""


LastLedByOthers = Callable[[Collection[int]], Iterable[Key]]
"""Returns the partitions whose leader, as far as this broker knows, is not one of some brokers."""


class ControllerTerm:
    """The work of a controller between its election and its end.

    Args:
        session: a started session.
        signal: makes a watch that calls `work` with that signal.
        epoch_version: version of `/controller_epoch` since the election.
        elected: whether the session of the election still lives.
        last_led_by_others: see `LastLedByOthers`.
    """

    def __init__(
        self,
        settings: TermSettings,
        session: ZkSession,
        states: PartitionStates,
        channels: BrokerChannels,
        signal: Callable[[Signal], Settable],
        epoch: int,
        epoch_version: int,
        counts: ElectionCounts,
        elected: Callable[[], bool] = lambda: True,
        last_led_by_others: LastLedByOthers = lambda live: (),
    ) -> None:
        self.epoch = epoch
        self._last_led_by_others = last_led_by_others
        self._epoch_version = epoch_version
        self._session = session
        self._channels = channels
        self._signal = signal
        self.context = context = ControllerContext(settings.unclean_default)
        self.answers = BrokerAnswers(context, signal(BROKERS), signal(OFFLINE_REPLICAS))
        self._batch = batch = RequestBatch(
            context,
            settings,
            epoch,
            self.answers,
            channels,
            session.runtime,
        )
        self._partitions = Partitions(
            session.runtime, context, states, batch, epoch, epoch_version, counts, elected
        )
        self.moves = LeaderMoves(context, self._partitions, batch)
        self.brokers = BrokerChanges(
            session, signal(BROKERS), context, self._partitions, batch, channels, self.answers
        )
        self.deletion = TopicDeletion(
            session,
            context,
            batch,
            self.answers,
            epoch_version,
            allowed=settings.delete_topics,
        )
        self._reassignment = Reassignment(session, context, self._partitions, batch, signal)
        self._topics = TopicsReader(session, signal(TOPICS))

    def begin(self) -> None:
        """Take over from the previous controller.

        Raises:
            ControllerMoved: there is another controller.
            RegistryError: ZooKeeper does not answer.
        """
        context, partitions = self.context, self._partitions
        context.brokers = self.brokers.read()
        self._read_topics()
        # The states that these notes announce are read below.
        isr_notes, _ = isr_changes(self._session, self._signal(ISR_CHANGES))
        dir_notes, _ = log_dir_failures(self._session, self._signal(LOG_DIRS))
        for live in context.brokers.values():
            self._channels.open(live.info)
        self._batch.brokers_changed(context.brokers)
        # Missing and wrong leaders are decided and sent before all other states, so that no broker
        # receives a decision that the next one revokes.
        led_by_others = self._last_led_by_others(context.brokers.keys())
        first = [key for key in dict.fromkeys(led_by_others) if context.known(key)]
        decided = self._read_and_elect(first)
        every = list(context.keys())
        decided |= self._read_and_elect([key for key in every if key not in decided])
        latest = max((s.controller_epoch for s in context.states.values()), default=0)
        if latest > self.epoch:
            # States of a later controller belong to assignments that were not read: a leader would
            # never learn of its new replicas, because no later request repeats a leader epoch.
            check_elected(self._session, self._epoch_version)
            # Without a later controller, the tree comes from another cluster: its states count.
            logger.warning("partition states name controller epoch %d, above this one", latest)
        remove_notes(self._session, [*isr_notes, *dir_notes], self._epoch_version)
        dead = {
            broker
            for key, state in context.states.items()
            for broker in (*context.replicas(key), *state.isr)
            if broker not in context.brokers
        }
        in_sync = [key for key in context.served() if context.in_isr(key, dead)]
        decided |= partitions.remove_from_isr(in_sync, dead)
        self._batch.flush()
        self._batch.metadata(every)
        self._batch.flush()
        self.brokers.send_states(context.brokers, but=decided)
        self._batch.flush()
        logger.info(
            "controller began epoch=%d brokers=%s topics=%d partitions=%d",
            self.epoch,
            sorted(context.brokers),
            len(context.assignments),
            len(context.states),
        )
        self._take_requests()
        self.deletion.advance()
        self._batch.flush()

    def _read_and_elect(self, keys: list[Key]) -> dict[Key, LeaderAndIsr]:
        """Read the states of partitions, and elect and send new leaders where needed.

        Returns:
            the decisions, by partition.
        """
        context, partitions = self.context, self._partitions
        decided: dict[Key, LeaderAndIsr] = {}
        # Brokers carry out the first decisions while the next ones are made.
        for some in in_parts(keys, DECIDED_AT_ONCE):
            context.states |= partitions.states.read(some)
            served = [key for key in some if not context.ending(key)]
            decided |= partitions.demote_unseen_restarts(served)
            decided |= partitions.elect_missing(served)
            self._batch.flush()
        return decided

    def work(self, signals: set[Signal]) -> None:
        """React to changes in ZooKeeper and to brokers' answers.

        Raises:
            ControllerMoved: there is another controller.
            RegistryError: ZooKeeper does not answer.
        """
        actions: dict[Signal, Callable[[], None]] = {
            BROKERS: self._take_broker_changes,
            TOPICS: self._take_topic_changes,
            OFFLINE_REPLICAS: self._take_offline_replicas,
            LOG_DIRS: self._take_log_dir_failures,
            ISR_CHANGES: self._take_isr_changes,
            REQUESTS: self._take_requests,
        }
        for name, action in actions.items():
            if name in signals:
                action()
                self._batch.flush()
        self._reassignment.states_changed(each for each in signals if isinstance(each, tuple))
        self.deletion.advance()
        self._batch.flush()

    def _take_broker_changes(self) -> None:
        gone, joined = self.brokers.apply()
        for broker in gone:
            self.deletion.broker_gone(broker)
        for broker in joined:
            self._reassignment.broker_joined(broker)
            self.deletion.broker_joined(broker)

    def _read_topics(self) -> None:
        view = self._topics.read()
        context = self.context
        for topic, assignment in view.assignments.items():
            # Only a reassignment changes the replicas of a known partition.
            known = context.assignments.get(topic, {})
            context.assignments[topic] = dict(assignment) | known
        for topic in [name for name in context.assignments if name not in view.assignments]:
            logger.info("topic gone topic=%s", topic)
            context.forget_topic(topic)
        context.configs = view.configs
        if self.deletion.allowed:
            context.deleting = set(view.deleting)
        elif view.deleting:
            self.deletion.refuse(set(view.deleting))

    def _take_topic_changes(self) -> None:
        context = self.context
        before = set(context.keys())
        unclean = {topic for topic in context.assignments if context.unclean(topic)}
        self._read_topics()
        new = [key for key in context.served() if key not in before]
        if new:
            self._partitions.read_again(new)
            self._send_known(new)
            self._partitions.elect_missing(new)
        self._elect_newly_unclean(unclean)

    def set_unclean_default(self, unclean: bool) -> None:
        """Change `unclean.leader.election.enable` of topics without the setting."""
        before = {topic for topic in self.context.assignments if self.context.unclean(topic)}
        self.context.unclean_default = unclean
        self._elect_newly_unclean(before)
        self._batch.flush()

    def _elect_newly_unclean(self, before: set[str]) -> None:
        context = self.context
        for topic in sorted(context.assignments.keys() - before):
            if context.unclean(topic):
                self._partitions.elect_missing(context.partitions(topic))

    def _send_known(self, keys: list[Key]) -> None:
        """Send states that new topics already have: such a topic had gone and come back unseen."""
        for key in keys:
            if not self.context.undecided(key):
                self._batch.decided(key, self.context.online_replicas(key))
                self._batch.metadata([key])

    def _take_isr_changes(self) -> None:
        notes, keys = isr_changes(self._session, self._signal(ISR_CHANGES))
        known = [key for key in keys if self.context.known(key)]
        self._partitions.read_again(known)
        self._batch.metadata(known)
        # A broker that has lost a log removes itself as leader before it registers.
        self._partitions.elect_missing(known)
        self._partitions.remove_offline_followers(known)
        self._batch.flush()
        remove_notes(self._session, notes, self._epoch_version)
        self._reassignment.advance()

    def _take_log_dir_failures(self) -> None:
        notes, brokers = log_dir_failures(self._session, self._signal(LOG_DIRS))
        # The brokers' answers say which replicas are offline.
        self.brokers.send_states(broker for broker in brokers if broker in self.context.brokers)
        self._batch.flush()
        remove_notes(self._session, notes, self._epoch_version)

    def _take_offline_replicas(self) -> None:
        for broker, keys in self.answers.take_offline().items():
            known = [key for key in keys if self.context.known(key)]
            self._partitions.elect_missing(known)
            self._partitions.remove_from_isr(known, {broker})
            self._batch.metadata(known)

    def _take_requests(self) -> None:
        requests = read_requests(self._session, self._signal(REQUESTS))
        if requests.reassignment is not None:
            self._reassignment.request(requests.reassignment)
        if requests.election is not None:
            self.moves.elect_requested(requests.election)
            finish_election(self._session, self._epoch_version)

    def resend_refused(self) -> None:
        """Send all state to the brokers that refused a request and did not register again."""
        for broker in sorted(self.answers.take_refused()):
            self.brokers.send_everything(broker)
            self.deletion.broker_joined(broker)
        self.deletion.advance()
        self._batch.flush()
