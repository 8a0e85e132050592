"""The controller of a cluster, at every broker: stands for election, and works while it is elected.

    watches, answers, requests --> signals and posted calls --> one task --> the term of office

Invariants: one task touches the term; a watch sets a signal and returns. A term ends at once when
another controller is elected; after any other error it is begun anew, with everything read again.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from zkbroker.config.broker import BrokerConfig
from zkbroker.controller.channel import BrokerChannels, Connect
from zkbroker.controller.partitions import ElectionCounts
from zkbroker.controller.term import ControllerTerm, Signal, TermSettings
from zkbroker.errors import ErrorCode, ProtocolError, RegistryError, ZkbrokerError
from zkbroker.registry.controller_election import ControllerElection
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.partition_states import Key, PartitionStates
from zkbroker.runtime import Runtime, Task
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

RETRY_S = 0.5
REFUSED_RETRY_S = 2.0
FIRST_REBALANCE_S = 5.0
MAX_WAITING_CALLS = 1000

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ControllerMetrics:
    """What the controller of this broker says of itself; zeros while another one is elected."""

    active: int = 0
    offline_partitions: int = 0
    preferred_replica_imbalance: int = 0
    topics_to_delete: int = 0
    topics: int = 0
    partitions: int = 0
    leader_elections: int = 0
    unclean_leader_elections: int = 0
    queued_requests: dict[int, int] = field(default_factory=dict)
    """Requests that wait, by broker."""

    GAUGES: ClassVar[tuple[tuple[str, str], ...]] = (
        ("active", "ActiveControllerCount"),
        ("offline_partitions", "OfflinePartitionsCount"),
        ("preferred_replica_imbalance", "PreferredReplicaImbalanceCount"),
        ("topics_to_delete", "TopicsToDeleteCount"),
        ("topics", "GlobalTopicCount"),
        ("partitions", "GlobalPartitionCount"),
    )
    """Attribute, and the name of the JMX bean."""
    COUNTERS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("leader_elections", "LeaderElectionsPerSec"),
        ("unclean_leader_elections", "UncleanLeaderElectionsPerSec"),
    )


class _Call:
    """A function to be called in the controller's task, and somebody who waits for its outcome."""

    def __init__(self, runtime: Runtime, function: Callable[[ControllerTerm], Any]) -> None:
        self.function = function
        self.done = runtime.event()
        self.answer: Any = None
        self.error: Exception | None = None

    def end(self, answer: Any = None, error: Exception | None = None) -> None:
        self.answer, self.error = answer, error
        self.done.set()


class _Watch:
    """A watch that sets a signal; equal to another for the same, so that one is left at a node."""

    __slots__ = ("_controller", "_name")

    def __init__(self, controller: "Controller", name: Signal) -> None:
        self._controller = controller
        self._name = name

    def set(self) -> None:
        self._controller.signal(self._name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watch) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)


class Controller:
    """One broker's controller.

    Args:
        config: the broker's settings.
        session: the started session that the broker is registered in.
        states: reads and writes partition states, in the cluster's form.
        broker_id: this broker.
        connect: makes the connection to a broker (`controller.connections`).
        clock: seconds, only ever growing.
    """

    def __init__(
        self,
        config: BrokerConfig,
        session: ZkSession,
        states: PartitionStates,
        broker_id: int,
        connect: Connect,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._session = session
        self._states = states
        self._runtime = session.runtime
        self._clock = clock
        self._settings = TermSettings(
            broker_id,
            config.inter_broker_protocol,
            config.log.unclean_leader_election,
            config.delete_topics,
        )
        self._counts = ElectionCounts()
        self._channels = BrokerChannels(
            self._runtime, connect, config.controller_queue_size, self._post, self._overflowed
        )
        self._election = ControllerElection(
            session, broker_id, on_elected=self._elected, on_resigned=self._resigned
        )
        self._changed = self._runtime.event()
        self._signals: set[Signal] = set()
        self._posted: deque[tuple[ControllerTerm | None, Callable[[], object]]] = deque()
        self._calls: deque[_Call] = deque()
        self._holds = False
        self._term: ControllerTerm | None = None
        self._began = False
        self._told = ""
        self._rebalance_at: float | None = None
        self._tell_refused_at: float | None = None
        self._closed = False
        self._task: Task | None = None

    # -- life cycle

    def start(self) -> None:
        """Stand for election, and work from now on.

        Raises:
            RegistryError: ZooKeeper does not answer; it may be started again.
        """
        self._election.start()
        self._task = self._runtime.spawn(self._run, name="controller")

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Give the office up, if held, and end."""
        self._closed = True
        self._changed.set()
        if self._task is not None:
            self._task.join(timeout_s)
        self._end_term()
        self._refuse_calls()
        self._election.close(timeout_s)

    # -- what others ask

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as its session lives."""
        return self._election.is_controller

    @property
    def active(self) -> bool:
        """Whether this broker is the controller and has taken everything over."""
        return self._began and self.is_controller

    def controlled_shutdown(
        self, broker_id: int, broker_epoch: int = -1, timeout_s: float | None = None
    ) -> list[Key]:
        """Move what a broker leads, because it is about to stop.

        Args:
            broker_id: the one that stops.
            broker_epoch: its broker epoch; -1 for that of its registration as it is known now.
            timeout_s: how long to wait; `controller.socket.timeout.ms` by default.

        Returns:
            the partitions with several replicas that it still leads; none: it may stop.

        Raises:
            ProtocolError: STALE_CONTROLLER_EPOCH (not the controller), BROKER_NOT_AVAILABLE (not
                registered), STALE_BROKER_EPOCH, REQUEST_TIMED_OUT.
        """
        # One that does not say is meant as it is registered now: when its turn comes, a broker that
        # has been restarted since must not be taken for one that leaves.
        live = None if self._term is None else self._term.context.brokers.get(broker_id)
        epoch = live.epoch if broker_epoch < 0 and live is not None else broker_epoch
        return self._call(
            lambda term: term.controlled_shutdown(broker_id, epoch),
            ErrorCode.STALE_CONTROLLER_EPOCH,
            timeout_s,
        )

    def elect_preferred(
        self, keys: Iterable[Key] | None = None, timeout_s: float | None = None
    ) -> dict[Key, ErrorCode]:
        """Make the first replicas of partitions their leaders again (of all, when not named).

        Returns:
            for each partition NONE, UNKNOWN_TOPIC_OR_PARTITION or PREFERRED_LEADER_NOT_AVAILABLE.

        Raises:
            ProtocolError: NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        wanted = None if keys is None else list(keys)
        return self._call(
            lambda term: term.elect_preferred(wanted), ErrorCode.NOT_CONTROLLER, timeout_s
        )

    def metrics(self) -> ControllerMetrics:
        """Return the figures of this moment."""
        term = self._term
        counts = self._counts
        if term is None or not self.active:
            return ControllerMetrics(
                leader_elections=counts.elections, unclean_leader_elections=counts.unclean
            )
        context = term.context
        return ControllerMetrics(
            active=1,
            offline_partitions=context.count(lambda key: not context.has_leader(key)),
            preferred_replica_imbalance=context.count(
                lambda key: (
                    (state := context.states.get(key)) is None
                    or state.leader not in context.replicas(key)[:1]
                )
            ),
            topics_to_delete=term.deletion.pending,
            topics=len(context.assignments),
            partitions=sum(map(len, context.assignments.values())),
            queued_requests=self._channels.queued(),
            leader_elections=counts.elections,
            unclean_leader_elections=counts.unclean,
        )

    def _call(
        self,
        function: Callable[[ControllerTerm], Answer],
        not_controller: ErrorCode,
        timeout_s: float | None,
    ) -> Answer:
        if not self.is_controller or self._closed:
            raise ProtocolError("this broker is not the controller", code=not_controller)
        if len(self._calls) >= MAX_WAITING_CALLS:
            raise ProtocolError("too much is asked of the controller", code=not_controller)
        call = _Call(self._runtime, function)
        self._calls.append(call)
        self._changed.set()
        wait_s = (
            self._config.controller_socket_timeout_ms / 1000 if timeout_s is None else timeout_s
        )
        if not call.done.wait(wait_s):
            raise ProtocolError(
                f"the controller did not come to it within {wait_s:g} s",
                code=ErrorCode.REQUEST_TIMED_OUT,
            )
        if isinstance(call.error, ControllerMoved):
            raise ProtocolError("this broker is not the controller any more", code=not_controller)
        if call.error is not None:
            raise call.error
        answer: Answer = call.answer
        return answer

    def set_unclean_default(self, unclean: bool) -> None:
        """Take `unclean.leader.election.enable` of topics that do not say, for terms now and later.

        Where it is switched on, partitions without a leader are elected at once.
        """
        if unclean == self._settings.unclean_default:
            return
        self._settings = replace(self._settings, unclean_default=unclean)
        term = self._term
        if term is not None:
            self._post(lambda: term.set_unclean_default(unclean))

    # -- what happens; these only leave a mark for the task

    def signal(self, name: Signal) -> None:
        """Note that something changed in ZooKeeper."""
        self._signals.add(name)
        self._changed.set()

    def _post(self, function: Callable[[], object]) -> None:
        self._posted.append((self._term, function))
        self._changed.set()

    def _overflowed(self, broker: int) -> None:
        if self._term is not None:
            self._term.tell_everything(broker)

    def _elected(self, epoch: int) -> None:
        self._holds = True
        self._changed.set()

    def _resigned(self) -> None:
        self._holds = False
        self._changed.set()

    # -- the task

    def _run(self) -> None:
        while not self._closed:
            self._changed.wait(self._wait_s())
            self._changed.clear()
            if not self._closed:
                self.work()

    def _wait_s(self) -> float | None:
        due = [at for at in (self._rebalance_at, self._tell_refused_at) if at is not None]
        if not due or not self._began:
            return None
        return max(0.0, min(due) - self._clock())

    def work(self) -> None:
        """Do what there is to do; for the controller's own task."""
        if self._term is not None and (not self._holds or self._term.epoch != self._election.epoch):
            self._end_term()
        if not self._holds:
            self._refuse_calls()
            self._signals.clear()
            return
        try:
            self._work(self._term or self._new_term())
            self._told = ""
        except ControllerMoved as moved:
            epoch = self._election.epoch if self._term is None else self._term.epoch
            logger.info("controller deposed epoch=%d reason=%s", epoch, moved)
            self._end_term()
            self._election.forfeit(epoch)
            self._holds = self.is_controller
            self._changed.set()
        except Exception as error:
            # Nothing is known any more of what was stored or sent: all of it is read again.
            foreseen = isinstance(error, ZkbrokerError)
            # ZooKeeper may be away for hours: what was told is not told again until it went well.
            again, self._told = str(error) == self._told, str(error)
            logger.log(
                logging.DEBUG if again else logging.WARNING,
                "controller begins anew error=%s",
                error,
                exc_info=not foreseen,
            )
            self._end_term()
            if isinstance(error, RegistryError):
                self._session.wait_connected(RETRY_S)
            self._runtime.sleep(RETRY_S)
            self._changed.set()

    def _new_term(self) -> ControllerTerm:
        self._signals.clear()
        self._posted.clear()
        epoch = self._election.epoch
        self._term = ControllerTerm(
            self._settings,
            self._session,
            self._states,
            self._channels,
            lambda name: _Watch(self, name),
            epoch,
            self._election.epoch_version,
            self._counts,
            lambda: self.is_controller and self._election.epoch == epoch,
        )
        return self._term

    def _work(self, term: ControllerTerm) -> None:
        if not self._began:
            term.begin()
            self._began = True
            if self._config.auto_leader_rebalance:
                self._rebalance_at = self._clock() + FIRST_REBALANCE_S
        while self._holds and (self._signals or self._posted or self._calls):
            signals, self._signals = self._signals, set()
            if signals:
                term.work(signals)
            while self._posted:
                posted_in, function = self._posted.popleft()
                if posted_in is term:
                    function()
            if self._calls:
                self._answer(term, self._calls.popleft())
        now = self._clock()
        if self._rebalance_at is not None and now >= self._rebalance_at:
            term.rebalance(self._config.leader_imbalance_percentage)
            self._rebalance_at = self._clock() + self._config.leader_imbalance_check_s
        if self._tell_refused_at is not None and now >= self._tell_refused_at:
            self._tell_refused_at = None
            term.tell_refused()
        elif self._tell_refused_at is None and term.refused:
            # Not at once: they may need a moment to find their own registration.
            self._tell_refused_at = now + REFUSED_RETRY_S

    def _answer(self, term: ControllerTerm, call: _Call) -> None:
        try:
            call.end(call.function(term))
        except ProtocolError as refused:
            call.end(error=refused)
        except Exception as error:
            call.end(error=error)
            raise

    def _end_term(self) -> None:
        self._term = None
        self._began = False
        self._tell_refused_at = None
        self._channels.close()
        self._posted.clear()

    def _refuse_calls(self) -> None:
        while self._calls:
            self._calls.popleft().end(error=ControllerMoved("not the controller"))
