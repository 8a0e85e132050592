"""A broker's membership in the cluster: registration, the controller to obey, and the exit.

    register --> registered, with an epoch --> registered again, with a later one
    leave: hand leaderships over --> deregister --> the last broker leaves nodes as genuine ones do

Invariant: the broker epoch is the transaction id of the present registration; a request with an
earlier one was meant for an earlier registration of this broker.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from zkbroker.broker.dialing import Dialing
from zkbroker.broker.view import ClusterView
from zkbroker.config.broker import BrokerConfig
from zkbroker.controller import Controller
from zkbroker.errors import RegistryError, ZkbrokerError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.inter_broker import INTER_BROKER_VERSIONS
from zkbroker.protocol.messages import ControlledShutdownRequest
from zkbroker.registry import paths
from zkbroker.registry.broker_registration import BrokerRegistration, SessionRecord
from zkbroker.registry.brokers import BrokerInfo, list_brokers
from zkbroker.registry.controller_election import (
    ControllerWatch,
    controller_epoch,
    current_controller,
)
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.state_form import StateForm, withdraw_form
from zkbroker.zookeeper import SessionState, ZkSession
from zkbroker.zookeeper.retries import while_connected

logger = logging.getLogger(__name__)

SESSION_FILE = "zookeeper-session.json"
SILENCE_S = 1.0
"""How long a stopping broker waits for a lost connection to ZooKeeper to return."""
ELECTION_ATTEMPTS = 3
ELECTION_PAUSE_S = 0.2


class ClusterMembership:
    """Registers the broker, follows the election of controllers, and leaves in order."""

    def __init__(
        self,
        config: BrokerConfig,
        session: ZkSession,
        states: PartitionStates,
        view: ClusterView,
        own: BrokerInfo,
        dialing: Dialing,
    ) -> None:
        self._config = config
        self._dialing = dialing
        self._session = session
        self._states = states
        self._view = view
        self._own = own
        self._listeners: list[Callable[[], object]] = []
        self._registration = BrokerRegistration(
            session,
            own,
            record=SessionRecord(Path(config.log_manager.log_dirs[0]) / SESSION_FILE),
            on_registered=self._registered,
        )
        self._watch = ControllerWatch(session, self._set_controller)
        self._silent_since_ms: int | None = None
        self.broker_epoch: int | None = None
        self.controller_id: int | None = None

    def on_registered(self, listener: Callable[[], object]) -> None:
        """Call back after every registration."""
        self._listeners.append(listener)

    def start(self) -> None:
        """Register.

        Raises:
            RegistryError: ZooKeeper does not answer, or another broker has the id.
        """
        self._registration.start()

    def note_session(self, state: SessionState) -> None:
        """Record whether ZooKeeper answers."""
        if state is SessionState.CONNECTED:
            self._silent_since_ms = None
        elif self._silent_since_ms is None:
            self._silent_since_ms = self._session.runtime.clock_ms()

    def session_over(self) -> bool:
        """Whether ZooKeeper was silent for so long that this broker's session must have ended."""
        since_ms, now_ms = self._silent_since_ms, self._session.runtime.clock_ms()
        timeout_ms = self._config.zookeeper_session_timeout_ms
        return since_ms is not None and now_ms - since_ms > timeout_ms

    def follow_controller(self) -> None:
        """Follow the election of controllers from now on.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._watch.start()

    def _set_controller(self, controller: int | None) -> None:
        self.controller_id = controller

    def _registered(self) -> None:
        self._read_epoch()
        for listener in self._listeners:
            listener()

    def _read_epoch(self) -> None:
        stat = self._session.exists(paths.broker(self._own.id))
        if stat is not None and stat.ephemeral_owner == self._session.session_id:
            self.broker_epoch = stat.czxid

    def learn_epoch(self, named: int) -> None:
        """Read the registration from ZooKeeper if a request names a later one than is known."""
        if self.broker_epoch is None or named > self.broker_epoch:
            try:
                self._read_epoch()
            except RegistryError as error:
                logger.debug("broker epoch not read error=%s", error)

    def was_elected(self, epoch: int) -> bool | None:
        """Whether a controller was elected in an epoch or later; None if ZooKeeper does not answer.

        A negative answer is checked again for a moment: a ZooKeeper server may be slightly behind.
        """
        for attempts_left in reversed(range(ELECTION_ATTEMPTS)):
            if self._session.state is not SessionState.CONNECTED:
                return None
            try:
                if controller_epoch(self._session) >= epoch:
                    return True
            except RegistryError as error:
                logger.debug("controller epoch not read error=%s", error)
                return None
            if attempts_left:
                self._session.runtime.sleep(ELECTION_PAUSE_S)
        return False

    # -- leaving

    def hand_over(self, controller: Controller, assigned: Iterable[Sequence[int]]) -> bool:
        """Let the controller move this broker's leaderships; returns whether none is left.

        After `controlled.shutdown.max.retries` attempts the broker stops anyway. It stops at once
        if ZooKeeper is silent: no controller can move leaders then.

        Args:
            controller: this broker's own, perhaps the elected one.
            assigned: the replicas of each partition here; without another live replica there is
                nothing to move.
        """
        config = self._config
        others = {each for replicas in assigned for each in replicas} - {self._own.id}
        if self._alone(others):
            return True
        if not config.controlled_shutdown:
            return False
        pause_s = config.controlled_shutdown_backoff_ms / 1000
        for attempt in range(config.controlled_shutdown_retries):
            if attempt:
                self._view.wait_for(lambda: self._alone(others) or not self._answers(), pause_s)
                if self._alone(others):
                    return True
            if not self._session.wait_connected(SILENCE_S):
                logger.warning("leaderships not handed over: ZooKeeper does not answer")
                return False
            try:
                remaining = while_connected(self._session, lambda: self._ask(controller), SILENCE_S)
            except ZkbrokerError as error:
                logger.warning("leaderships not handed over error=%s", error)
                continue
            if not remaining:
                return True
            logger.warning("leaderships not handed over count=%d", remaining)
        return False

    def _alone(self, others: set[int]) -> bool:
        """Whether there is no other live broker to take over."""
        return others.isdisjoint(self._view.brokers)

    def _answers(self) -> bool:
        return self._session.state is SessionState.CONNECTED

    def _ask(self, controller: Controller) -> int:
        epoch = -1 if self.broker_epoch is None else self.broker_epoch
        if controller.is_controller:
            return len(controller.controlled_shutdown(self._own.id, epoch))
        chosen = current_controller(self._session)
        broker = None if chosen is None else self._view.brokers.get(chosen)
        if broker is None or chosen == self._own.id:
            raise RegistryError("there is no controller to ask")
        connection = self._dialing.connection(
            broker, "controlled-shutdown", self._config.controller_socket_timeout_ms
        )
        versions = INTER_BROKER_VERSIONS[self._config.inter_broker_protocol]
        version = versions[ApiKey.CONTROLLED_SHUTDOWN]
        try:
            answer = connection.send(ControlledShutdownRequest(self._own.id, epoch), version)
        finally:
            connection.close()
        if answer.error_code:
            raise RegistryError(f"the controller answered error {answer.error_code}")
        return len(answer.partitions_remaining)

    def deregister(self, timeout_s: float) -> None:
        """Leave `/brokers/ids`; the last live broker leaves `state` nodes as genuine ones do."""
        self._registration.close(timeout_s)
        if self._session.state is not SessionState.CONNECTED:
            return
        if self._states.form is not StateForm.EPHEMERAL:
            return
        try:
            if list_brokers(self._session):
                return
            left = self._states.leave_persistent(self._view.partitions())
            withdraw_form(self._session)
        except RegistryError as error:
            logger.warning("partition states not left for other brokers error=%s", error)
            return
        logger.info("last broker of the cluster stops: states left persistent count=%d", left)

    def close(self) -> None:
        """End the watch of the controller."""
        self._watch.close()
