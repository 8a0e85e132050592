"""One term of office: from an election until another controller is elected or something fails.

    begin    read everything -> tell every broker everything -> elect what has no leader
    signal   something in ZooKeeper changed: read that, decide, store, tell
    posted   a broker answered, or a broker or client asks for something

Invariants: one task runs all of it, one thing after the other. What is told was stored before. A
term that met an error is thrown away and another one begins with `begin`, which needs to know
nothing of what came before; so nothing that was stored stays untold.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from zkbroker.controller.channel import BrokerChannels
from zkbroker.controller.context import ControllerContext, LiveBroker
from zkbroker.controller.deletion import TopicDeletion
from zkbroker.controller.partitions import ElectionCounts, Partitions
from zkbroker.controller.reassignment import Reassignment
from zkbroker.controller.requests import RequestBatch, Term
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.registry.brokers import live_brokers
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.notifications import isr_changes, log_dir_failures, remove_notes
from zkbroker.registry.operator_requests import finish_election, read_requests
from zkbroker.registry.partition_states import Key, PartitionStates
from zkbroker.registry.topics_watch import TopicsReader
from zkbroker.runtime.pacing import paced
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

BROKERS = "brokers"
TOPICS = "topics"
REQUESTS = "requests"
ISR_CHANGES = "isr changes"
LOG_DIRS = "log directories"
ORDER = (BROKERS, TOPICS, LOG_DIRS, ISR_CHANGES, REQUESTS)

Signal = str | Key
"""One of the names above, or a partition whose state was written."""


@dataclass(frozen=True, slots=True)
class TermSettings:
    """What a controller is configured to do.

    Args:
        controller_id: the broker that is the controller.
        level: `inter.broker.protocol.version`.
        unclean_default: `unclean.leader.election.enable` of topics that do not say.
        delete_topics: `delete.topic.enable`.
    """

    controller_id: int
    level: str = "2.3"
    unclean_default: bool = False
    delete_topics: bool = True


class ControllerTerm:
    """What a controller does between its election and its end.

    Args:
        settings: what it is configured to do.
        session: a started session.
        states: where decisions are stored.
        channels: how brokers are told.
        signal: makes what is set to have `work` called with that signal.
        epoch: the controller's epoch.
        epoch_version: version of `/controller_epoch` since the election.
        counts: where elections are counted.
        elected: whether the session of the election still lives.
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
    ) -> None:
        self.epoch = epoch
        self.epoch_version = epoch_version
        self.refused: set[int] = set()
        """Brokers that refused a decision, and are to be told again."""
        self._session = session
        self._channels = channels
        self._signal = signal
        self.context = ControllerContext(settings.unclean_default)
        self._batch = RequestBatch(
            self.context,
            Term(settings.controller_id, epoch, settings.level),
            self._leader_and_isr_answered,
            lambda broker, response: self._refused("UpdateMetadata", broker, response),
            session.runtime,
        )
        self._partitions = Partitions(
            session.runtime,
            self.context,
            states,
            self._batch,
            epoch,
            epoch_version,
            counts,
            elected,
        )
        self.deletion = TopicDeletion(
            session,
            self.context,
            self._batch,
            epoch_version,
            allowed=settings.delete_topics,
            refused=self._was_refused,
        )
        self._reassignment = Reassignment(
            session, self.context, self._partitions, self._batch, signal
        )
        self._topics = TopicsReader(session, signal(TOPICS))

    # -- the beginning

    def begin(self) -> None:
        """Take everything over.

        Raises:
            ControllerMoved: there is another controller.
            RegistryError: ZooKeeper does not answer.
        """
        context = self.context
        for broker, (info, epoch) in live_brokers(self._session, self._signal(BROKERS)).items():
            context.brokers[broker] = LiveBroker(info, epoch)
        self._take_topics()
        # What these notes are about is read below.
        isr_notes, _ = isr_changes(self._session, self._signal(ISR_CHANGES))
        dir_notes, _ = log_dir_failures(self._session, self._signal(LOG_DIRS))
        context.states = self._partitions.states.read(context.keys())
        later = [s.controller_epoch for s in context.states.values()]
        if later and max(later) > self.epoch:
            # Only a tree from elsewhere can hold such: our own epoch is the highest of this one.
            logger.warning("partition states name controller epoch %d, above this one", max(later))
        remove_notes(self._session, [*isr_notes, *dir_notes], self.epoch_version)
        for live in context.brokers.values():
            self._channels.open(live.info)
        self._batch.brokers_changed(context.brokers)
        dead = {
            broker
            for key, state in context.states.items()
            for broker in (*context.replicas(key), *state.isr)
            if broker not in context.brokers
        }
        # What has no leader, or not the right one, is decided and told before all the rest is: a
        # broker hears of no decision that the next one takes back.
        decided = self._partitions.renew(context.served())
        decided |= self._partitions.elect_missing(context.served())
        self._flush()
        in_sync = [key for key in context.served() if self._in_isr(key, dead)]
        decided |= self._partitions.lose_replicas(in_sync, dead)
        self._flush()
        self._batch.metadata(context.keys())
        self._flush()
        self._tell_states(context.brokers, told=decided)
        self._flush()
        logger.info(
            "controller began epoch=%d brokers=%s topics=%d partitions=%d",
            self.epoch,
            sorted(context.brokers),
            len(context.assignments),
            len(context.states),
        )
        self._take_requests()
        self.deletion.advance()
        self._flush()

    def _touching(self, brokers: set[int]) -> list[Key]:
        """The partitions with a replica on brokers, in sync or not as far as is known."""
        replicas = self.context.replicas
        return [
            key
            for key in self.context.served()
            if not brokers.isdisjoint(replicas(key)) or self._in_isr(key, brokers)
        ]

    def _in_isr(self, key: Key, brokers: set[int]) -> bool:
        state = self.context.states.get(key)
        return state is not None and (state.leader in brokers or not brokers.isdisjoint(state.isr))

    def _tell_states(self, brokers: Iterable[int], told: Collection[Key] = ()) -> None:
        """Tell brokers what is decided for their replicas, but for what they were just told."""
        asked = set(brokers)
        for key in paced(self._session.runtime, self.context.served()):
            if key not in told and not self.context.undecided(key):
                replicas = self.context.replicas(key)
                self._batch.decided(key, [broker for broker in replicas if broker in asked])

    def _flush(self) -> None:
        self._batch.flush(self._channels)

    # -- what changed in ZooKeeper

    def work(self, signals: set[Signal]) -> None:
        """React to what has changed.

        Raises:
            ControllerMoved: there is another controller.
            RegistryError: ZooKeeper does not answer.
        """
        actions: dict[Signal, Callable[[], None]] = {
            BROKERS: self._take_brokers,
            TOPICS: self._take_topic_changes,
            REQUESTS: self._take_requests,
            ISR_CHANGES: self._take_isr_changes,
            LOG_DIRS: self._take_log_dir_failures,
        }
        for name in ORDER:
            if name in signals:
                actions[name]()
                self._flush()
        for key in sorted(each for each in signals if isinstance(each, tuple)):
            self._reassignment.state_changed(key)
        self.deletion.advance()
        self._flush()

    def _take_brokers(self) -> None:
        context = self.context
        found = live_brokers(self._session, self._signal(BROKERS))
        now = {broker: LiveBroker(info, epoch) for broker, (info, epoch) in found.items()}
        before = dict(context.brokers)
        gone = before.keys() - now.keys()
        # Known, and registered anew: they went and came back.
        back = {b for b in before.keys() & now.keys() if before[b].epoch != now[b].epoch}
        joined = sorted(back | (now.keys() - before.keys()))
        if gone or joined:
            self._brokers_changed(now, gone, back, joined)

    def _brokers_changed(
        self,
        now: dict[int, LiveBroker],
        gone: set[int],
        back: set[int],
        joined: list[int],
    ) -> None:
        """Take the live brokers; every partition is decided once for all that came and went."""
        context = self.context
        logger.info("brokers gone ids=%s joined ids=%s", sorted(gone | back), joined)
        for broker in gone | back:
            self._channels.drop(broker)
            self.deletion.broker_gone(broker)
        context.shutting_down -= gone | back
        self.refused -= gone | back
        context.offline_replicas = {
            each for each in context.offline_replicas if each[1] not in gone | back
        }
        context.brokers = now
        for broker in joined:
            self._channels.open(now[broker].info)
        # Who lives is told first: a follower must know where its leader listens.
        self._batch.brokers_changed(now)
        decided = self._partitions.distrust(self._touching(back), back)
        decided |= self._partitions.elect_missing(context.served())
        if decided:
            # New leaders are told before the ISRs of the others are written.
            self._flush()
        left = [key for key in self._touching(gone) if key not in decided]
        decided |= self._partitions.lose_replicas(left, gone)
        if gone and decided:
            # These partitions were told; those that only had a replica there have one fewer now.
            self._batch.metadata(
                key for broker in gone for key in context.hosted_by(broker) if key not in decided
            )
        if decided or not joined:
            self._flush()
        if not joined:
            return
        self._batch.metadata(context.keys(), joined)
        self._batch.metadata(
            (key for broker in joined for key in context.hosted_by(broker)),
            now.keys() - set(joined),
        )
        self._flush()
        self._tell_states(joined, told=decided)
        self._flush()
        for broker in joined:
            self._reassignment.broker_joined(broker)
            self.deletion.broker_joined(broker)

    def _take_topics(self) -> None:
        view = self._topics.read()
        context = self.context
        for topic, assignment in view.assignments.items():
            # Replicas of a partition that is known change by reassignment alone.
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
        self._take_topics()
        new = [key for key in context.served() if key not in before]
        if new:
            context.states |= self._partitions.states.read(new)
            self._tell_known(new)
            self._partitions.elect_missing(new)
        self._elect_newly_unclean(unclean)

    def set_unclean_default(self, unclean: bool) -> None:
        """Take what topics do that do not say whether a replica out of sync may lead."""
        before = {topic for topic in self.context.assignments if self.context.unclean(topic)}
        self.context.unclean_default = unclean
        self._elect_newly_unclean(before)
        self._flush()

    def _elect_newly_unclean(self, before: set[str]) -> None:
        context = self.context
        for topic in sorted(context.assignments.keys() - before):
            if context.unclean(topic):
                self._partitions.elect_missing(context.partitions(topic))

    def _tell_known(self, keys: list[Key]) -> None:
        """A topic that appears with its states: it was not seen going and coming back."""
        for key in keys:
            if not self.context.undecided(key):
                self._batch.decided(key, self.context.online_replicas(key))
                self._batch.metadata([key])

    def _take_isr_changes(self) -> None:
        notes, keys = isr_changes(self._session, self._signal(ISR_CHANGES))
        known = [key for key in keys if self.context.known(key)]
        self._partitions.read_again(known)
        self._batch.metadata(known)
        # A leader that has lost its log takes itself out before it registers.
        self._partitions.elect_missing(known)
        self._lose_members_offline(known)
        self._flush()
        remove_notes(self._session, notes, self.epoch_version)
        self._reassignment.advance()

    def _lose_members_offline(self, keys: Iterable[Key]) -> None:
        """Take followers out of ISRs that they entered when they were gone already.

        Their leader did not know it yet. It would keep them for as long as nothing is appended, and
        have the first append then wait for them.
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
            self._partitions.lose_replicas(lost[broker], {broker})

    def _take_log_dir_failures(self) -> None:
        notes, brokers = log_dir_failures(self._session, self._signal(LOG_DIRS))
        # Their answers say which replicas are offline.
        self._tell_states(broker for broker in brokers if broker in self.context.brokers)
        self._flush()
        remove_notes(self._session, notes, self.epoch_version)

    def _take_requests(self) -> None:
        requests = read_requests(self._session, self._signal(REQUESTS))
        if requests.reassignment is not None:
            self._reassignment.request(requests.reassignment)
        if requests.election is not None:
            wanted = sorted(key for key in requests.election if self.context.known(key))
            decided = self._partitions.elect_preferred(wanted)
            logger.info("preferred leaders asked=%d elected=%d", len(wanted), len(decided))
            self._flush()
            finish_election(self._session, self.epoch_version)

    # -- what brokers answer

    def _leader_and_isr_answered(self, broker: int, response: Any) -> None:
        if self._refused("LeaderAndIsr", broker, response):
            return
        offline: list[Key] = []
        for item in response.partitions:
            key = (item.topic, item.partition)
            if item.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                offline.append(key)
                self.context.offline_replicas.add((key, broker))
            else:
                self.context.offline_replicas.discard((key, broker))
        if offline:
            logger.warning("replicas offline broker=%d partitions=%d", broker, len(offline))
            known = [key for key in offline if self.context.known(key)]
            self._partitions.elect_missing(known)
            self._partitions.lose_replicas(known, {broker})
            self._batch.metadata(known)
            self._flush()

    def _refused(self, api: str, broker: int, response: Any) -> bool:
        """Take note of whether a broker refused a request as a whole.

        Raises:
            ControllerMoved: it knows a later controller.
        """
        if response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
            raise ControllerMoved(f"broker {broker} knows a later controller")
        if response.error_code == ErrorCode.NONE:
            return False
        logger.warning("%s refused broker=%d error=%d", api, broker, response.error_code)
        self._was_refused(broker)
        return True

    def _was_refused(self, broker: int) -> None:
        # Most likely its registration is another than the one known here, or it does not know of it
        # yet. One that registered anew is told everything then, others by `tell_refused`.
        self.refused.add(broker)
        self._signal(BROKERS).set()

    def tell_refused(self) -> None:
        """Tell the brokers that refused a decision, and did not register anew, everything again."""
        refused, self.refused = self.refused, set()
        for broker in sorted(refused):
            self.tell_everything(broker)
            self.deletion.broker_joined(broker)
        self.deletion.advance()
        self._flush()

    def tell_everything(self, broker: int) -> None:
        """Tell one broker all that it is to know; something that it was to be told is lost."""
        if broker in self.context.brokers:
            self._batch.brokers_changed([broker])
            self._batch.metadata(self.context.keys(), [broker])
            self._flush()
            self._tell_states([broker])
            self._flush()

    # -- what is asked for

    def controlled_shutdown(self, broker: int, epoch: int) -> list[Key]:
        """Move what a broker leads, because it is about to stop.

        Args:
            broker: its id.
            epoch: its broker epoch; -1 if it did not say.

        Returns:
            the partitions with several replicas that it still leads: no other one may.

        Raises:
            ProtocolError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH.
        """
        context = self.context
        live = context.brokers.get(broker)
        if live is None:
            raise ProtocolError(
                f"broker {broker} is not registered", code=ErrorCode.BROKER_NOT_AVAILABLE
            )
        if 0 <= epoch < live.epoch:
            raise ProtocolError(
                f"broker {broker} has registered anew since", code=ErrorCode.STALE_BROKER_EPOCH
            )
        context.shutting_down.add(broker)
        several = [
            key
            for key in context.hosted_by(broker)
            if len(context.replicas(key)) > 1 and not context.ending(key)
        ]
        led = [key for key in several if self._leads(broker, key)]
        self._partitions.move_leaders(led)
        self._flush()
        followed = [key for key in several if not self._leads(broker, key)]
        for key in followed:
            self._batch.stop(key, [broker], delete=False)
        self._partitions.lose_replicas(followed, {broker})
        self._flush()
        left = [key for key in several if self._leads(broker, key)]
        logger.info(
            "broker shuts down id=%d moved=%d left=%d", broker, len(led) - len(left), len(left)
        )
        return left

    def _leads(self, broker: int, key: Key) -> bool:
        state = self.context.states.get(key)
        return state is not None and state.leader == broker

    def elect_preferred(self, wanted: Iterable[Key] | None) -> dict[Key, ErrorCode]:
        """Make first replicas leaders again; for all partitions when none are named."""
        keys = list(self.context.served() if wanted is None else wanted)
        known = [key for key in keys if self.context.known(key)]
        self._partitions.elect_preferred(known)
        self._flush()
        answers: dict[Key, ErrorCode] = {}
        for key in keys:
            replicas = self.context.replicas(key)
            if not replicas or key[0] in self.context.deleting:
                answers[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif self._leads(replicas[0], key):
                answers[key] = ErrorCode.NONE
            else:
                answers[key] = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        return answers

    def rebalance(self, above_percent: int) -> None:
        """Give partitions back to preferred leaders that lead too few of theirs."""
        if self.context.reassigning:
            return
        owed = self.context.imbalanced(above_percent)
        if owed:
            decided = self._partitions.elect_preferred(owed)
            logger.info("preferred leaders owed=%d elected=%d", len(owed), len(decided))
            self._flush()
