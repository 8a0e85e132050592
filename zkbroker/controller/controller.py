"""The controller of a cluster, in every broker: stands for election and works while elected.

    watches, answers, requests --> signals and posted calls --> one task --> the term of office

Invariants: one task touches the term; a watch sets a signal and returns. A term ends at once when
another controller is elected. After any other error a new term begins, which reads all state again.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from zkbroker.config.broker import BrokerConfig
from zkbroker.controller.calls import ControllerCalls
from zkbroker.controller.channel import BrokerChannels, Connect
from zkbroker.controller.context import TermSettings
from zkbroker.controller.metrics import ControllerMetrics, controller_metrics
from zkbroker.controller.partitions import ElectionCounts
from zkbroker.controller.term import ControllerTerm, LastLedByOthers, Signal
from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.registry.controller_election import ControllerElection
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.partition_states import Key, PartitionStates
from zkbroker.runtime import OwnerLoop
from zkbroker.zookeeper.session import ZkSession
from zkbroker.zookeeper.watching import Mark

logger = logging.getLogger(__name__)

RETRY_S = 0.5
REFUSED_RETRY_MS = 2000
FIRST_REBALANCE_MS = 5000

Answer = TypeVar("Answer")


class Controller:
    """One broker's controller.

    Args:
        config: the broker's settings.
        session: the started session that the broker is registered in.
        states: reads and writes partition states, in the cluster's form.
        broker_id: this broker.
        connect: makes the connection to a broker.
        last_led_by_others: which partitions a new controller reads first, see `LastLedByOthers`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        session: ZkSession,
        states: PartitionStates,
        broker_id: int,
        connect: Connect,
        last_led_by_others: LastLedByOthers = lambda live: (),
    ) -> None:
        self._config = config
        self._last_led_by_others = last_led_by_others
        self._session = session
        self._states = states
        self._settings = TermSettings(
            broker_id,
            config.inter_broker_protocol,
            config.inter_broker,
            config.log.unclean_leader_election,
            config.delete_topics,
        )
        self._counts = ElectionCounts()
        self._loop = OwnerLoop(
            session.runtime,
            self._step,
            name="controller",
            logger=logger,
            retry_s=RETRY_S,
            foreseen=(ZkbrokerError,),
            # It is unknown what was stored or sent: the next term reads all state again.
            on_failure=lambda error: self._end_term(),
        )
        self._channels = BrokerChannels(
            session.runtime, connect, config.controller_queue_size, self._post, self._overflowed
        )
        self._election = ControllerElection(
            session, broker_id, on_elected=self._elected, on_resigned=self._resigned
        )
        self._calls = ControllerCalls(session.runtime, self._loop.set)
        self._signals: set[Signal] = set()
        self._posted: deque[tuple[ControllerTerm | None, Callable[[], object]]] = deque()
        self._holds = False
        self._term: ControllerTerm | None = None
        self._began = False
        self._rebalance_at: int | None = None
        self._resend_at: int | None = None

    def start(self) -> None:
        """Stand for election, and start the task.

        Raises:
            RegistryError: ZooKeeper does not answer; `start` may be called again.
        """
        self._election.start()
        self._loop.start()

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Resign, if elected, and end."""
        self._loop.close(timeout_s)
        self._end_term()
        self._calls.refuse_all()
        self._election.close(timeout_s)

    # -- requests of other tasks

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller; its session may have expired meanwhile."""
        return self._election.is_controller

    @property
    def active(self) -> bool:
        """Whether this broker is the controller and its takeover is complete."""
        return self._began and self.is_controller

    def controlled_shutdown(
        self, broker_id: int, broker_epoch: int = -1, timeout_s: float | None = None
    ) -> list[Key]:
        """Move the leaders of a broker that is about to stop.

        Args:
            broker_id: the broker.
            broker_epoch: its broker epoch; -1 for that of its known registration.
            timeout_s: how long to wait; `controller.socket.timeout.ms` by default.

        Returns:
            the partitions with several replicas that it still leads; if none, it may stop.

        Raises:
            ProtocolError: STALE_CONTROLLER_EPOCH (not the controller), BROKER_NOT_AVAILABLE (not
                registered), STALE_BROKER_EPOCH, REQUEST_TIMED_OUT.
        """
        # A broker that restarts before its turn comes must not count as about to stop.
        live = None if self._term is None else self._term.context.brokers.get(broker_id)
        epoch = live.epoch if broker_epoch < 0 and live is not None else broker_epoch
        return self._call(
            lambda term: term.moves.controlled_shutdown(broker_id, epoch),
            ErrorCode.STALE_CONTROLLER_EPOCH,
            timeout_s,
        )

    def elect_preferred(
        self, keys: Iterable[Key] | None = None, timeout_s: float | None = None
    ) -> dict[Key, ErrorCode]:
        """Make the first replicas of partitions their leaders again (of all when None).

        Returns:
            for each partition NONE, UNKNOWN_TOPIC_OR_PARTITION or PREFERRED_LEADER_NOT_AVAILABLE.

        Raises:
            ProtocolError: NOT_CONTROLLER, REQUEST_TIMED_OUT.
        """
        wanted = None if keys is None else list(keys)
        return self._call(
            lambda term: term.moves.elect_preferred(wanted), ErrorCode.NOT_CONTROLLER, timeout_s
        )

    def _call(
        self,
        function: Callable[[ControllerTerm], Answer],
        not_controller: ErrorCode,
        timeout_s: float | None,
    ) -> Answer:
        if not self.is_controller or self._loop.closed:
            raise ProtocolError("this broker is not the controller", code=not_controller)
        default_s = self._config.controller_socket_timeout_ms / 1000
        return self._calls.ask(
            function, not_controller, default_s if timeout_s is None else timeout_s
        )

    def metrics(self) -> ControllerMetrics:
        """Return the present metrics."""
        term = self._term if self.active else None
        return controller_metrics(term, self._counts, self._channels.queued())

    def set_unclean_default(self, unclean: bool) -> None:
        """Change `unclean.leader.election.enable` of topics without the setting.

        When it is switched on, partitions without a leader are elected at once.
        """
        if unclean == self._settings.unclean_default:
            return
        self._settings = replace(self._settings, unclean_default=unclean)
        term = self._term
        if term is not None:
            self._post(lambda: term.set_unclean_default(unclean))

    # -- events; these only wake the task

    def _signal(self, name: Signal) -> None:
        self._signals.add(name)
        self._loop.set()

    def _post(self, function: Callable[[], object]) -> None:
        self._posted.append((self._term, function))
        self._loop.set()

    def _overflowed(self, broker: int) -> None:
        if self._term is not None:
            self._term.brokers.send_everything(broker)

    def _elected(self, epoch: int) -> None:
        self._holds = True
        self._loop.set()

    def _resigned(self) -> None:
        self._holds = False
        self._loop.set()

    # -- the task

    def _step(self) -> float | None:
        if self._term is not None and (not self._holds or self._term.epoch != self._election.epoch):
            self._end_term()
        if not self._holds:
            self._calls.refuse_all()
            self._signals.clear()
            return None
        try:
            self._work(self._term or self._new_term())
        except ControllerMoved as moved:
            epoch = self._election.epoch if self._term is None else self._term.epoch
            logger.info("controller deposed epoch=%d reason=%s", epoch, moved)
            self._end_term()
            self._election.forfeit(epoch)
            self._holds = self.is_controller
            return 0.0
        due = [at for at in (self._rebalance_at, self._resend_at) if at is not None]
        return max(0, min(due) - self._clock_ms()) / 1000 if due else None

    def _new_term(self) -> ControllerTerm:
        self._signals.clear()
        self._posted.clear()
        epoch = self._election.epoch
        self._term = ControllerTerm(
            self._settings,
            self._session,
            self._states,
            self._channels,
            lambda name: Mark(self._signal, name),
            epoch,
            self._election.epoch_version,
            self._counts,
            lambda: self.is_controller and self._election.epoch == epoch,
            self._last_led_by_others,
        )
        return self._term

    def _work(self, term: ControllerTerm) -> None:
        if not self._began:
            term.begin()
            self._began = True
            if self._config.auto_leader_rebalance:
                self._rebalance_at = self._clock_ms() + FIRST_REBALANCE_MS
        while self._holds and (self._signals or self._posted or self._calls):
            signals, self._signals = self._signals, set()
            if signals:
                term.work(signals)
            while self._posted:
                posted_in, function = self._posted.popleft()
                if posted_in is term:
                    function()
            if self._calls:
                self._calls.answer_next(term)
        now = self._clock_ms()
        if self._rebalance_at is not None and now >= self._rebalance_at:
            term.moves.rebalance(self._config.leader_imbalance_percentage)
            interval_ms = int(self._config.leader_imbalance_check_s * 1000)
            self._rebalance_at = self._clock_ms() + interval_ms
        if self._resend_at is not None and now >= self._resend_at:
            self._resend_at = None
            term.resend_refused()
        elif self._resend_at is None and term.answers.refused:
            # After a pause: a broker may need a moment to find its own registration.
            self._resend_at = now + REFUSED_RETRY_MS

    def _clock_ms(self) -> int:
        return self._session.runtime.clock_ms()

    def _end_term(self) -> None:
        self._term = None
        self._began = False
        self._rebalance_at = self._resend_at = None
        self._channels.close()
        self._posted.clear()
