"""Election of the controller among the brokers.

    /controller        {"version":1,"brokerid":0,"timestamp":"ms"}   ephemeral: its broker
    /controller_epoch  number, grows by one at every election

Invariant: `/controller` is created and the epoch is raised in one transaction, under the epoch's
node version that was read before, so that no two elections share an epoch. A broker whose session
is lost is not the controller any more before anything else happens, and stands again when it is
registered in its next session: a controller that did not find itself among the live brokers would
take its own partitions away. The node that a dead predecessor of this broker left behind, in a
session that has not run out yet, is replaced.
"""

import contextlib
import json
import logging
import time
from collections.abc import Callable

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import int32, read_json
from zkbroker.runtime import OwnerLoop
from zkbroker.zookeeper.errors import NoNode, TransactionFailed
from zkbroker.zookeeper.nodes import Create, Delete, NodeStat, Operation, SetData, Settable
from zkbroker.zookeeper.session import SessionState, ZkSession
from zkbroker.zookeeper.watching import WatchLoop

logger = logging.getLogger(__name__)

RETRY_S = 0.5


def current_controller(session: ZkSession, watch: Settable | None = None) -> int | None:
    """Return the id of the broker that is the controller, None while there is none."""
    if watch is not None:
        # Watches the node whether it exists or not.
        session.exists(paths.CONTROLLER, watch)
    try:
        return int32(read_json(session.get(paths.CONTROLLER)[0])["brokerid"])
    except NoNode:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise RegistryError(
            f"{paths.CONTROLLER} names no broker: delete that node, so that one is elected"
        ) from error


def controller_epoch(session: ZkSession) -> int:
    """Return the epoch of the last election, 0 before the first."""
    return _read_epoch(session)[0]


def _read_epoch(session: ZkSession) -> tuple[int, int | None]:
    try:
        data, stat = session.get(paths.CONTROLLER_EPOCH)
    except NoNode:
        return 0, None
    try:
        return int32(data), stat.version
    except ValueError as error:
        raise RegistryError(
            f"{paths.CONTROLLER_EPOCH} holds no number: {data[:50]!r}; write one into it that is "
            "above every controller_epoch in the partitions' state nodes"
        ) from error


class ControllerWatch(WatchLoop[int | None]):
    """Keep the id of the controller up to date; see `WatchLoop`."""

    def __init__(self, session: ZkSession, on_change: Callable[[int | None], object]) -> None:
        super().__init__(
            session,
            lambda watch: current_controller(session, watch),
            on_change,
            name="watch-controller",
        )


class ControllerElection:
    """Stands for controller for as long as the broker lives.

    Args:
        session: a started session, the one the broker is registered in.
        broker_id: the candidate.
        on_elected: called with the epoch, from the election's task.
        on_resigned: called from the election's task when it is the controller no more.
    """

    def __init__(
        self,
        session: ZkSession,
        broker_id: int,
        *,
        on_elected: Callable[[int], object] = lambda epoch: None,
        on_resigned: Callable[[], object] = lambda: None,
    ) -> None:
        self._session = session
        self._broker_id = broker_id
        self._on_elected = on_elected
        self._on_resigned = on_resigned
        self._loop = OwnerLoop(
            session.runtime,
            self._look,
            name="controller-election",
            logger=logger,
            retry_s=RETRY_S,
            foreseen=(RegistryError,),
            ended=lambda: session.closed,
        )
        self._unsubscribe: Callable[[], None] = lambda: None
        self._elected_in: int | None = None
        self._told = False
        self.epoch = 0
        self.epoch_version = -1
        """Version of `/controller_epoch` since the last election: what this controller's changes
        check, so that a deposed one changes nothing."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as its session lives."""
        return (
            self._elected_in is not None
            and self._elected_in == self._session.generation
            and self._session.state is not SessionState.LOST
        )

    def start(self) -> None:
        """Stand for the first time and keep standing.

        Raises:
            RegistryError: ZooKeeper does not answer; it may be started again.
        """
        self._stand()
        self._unsubscribe = self._session.on_state(lambda state: self._loop.set())
        # Looks again at once: no listener was on the session until now.
        self._loop.start(first_s=0.0)

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Resign, if elected, and stop."""
        self._unsubscribe()
        self._loop.close(timeout_s)
        if self.is_controller and self._session.state is SessionState.CONNECTED:
            with contextlib.suppress(RegistryError):
                self._session.delete(paths.CONTROLLER, missing_ok=True)
        self._elected_in = None
        self._tell()

    def forfeit(self, epoch: int) -> None:
        """Stand again: a change was refused as that of a deposed controller.

        Args:
            epoch: of which election the change was; nothing if there has been another one since.
        """
        if epoch == self.epoch:
            self._elected_in = None
            self._loop.set()

    def _look(self) -> None:
        # Without a connection too: a broker without its session has resigned before.
        self._tell()
        if self._session.state is SessionState.CONNECTED:
            self._stand()

    def _stand(self) -> None:
        while not self._loop.closed:
            # Read before the node: an election after this makes ours fail.
            epoch, version = _read_epoch(self._session)
            stat = self._session.exists(paths.CONTROLLER, self._loop)
            replaced: list[Operation] = []
            if stat is not None:
                if self.is_controller and stat.ephemeral_owner == self._session.session_id:
                    return
                self._resign()
                if not self._left_by_us(stat):
                    return
                replaced.append(Delete(paths.CONTROLLER, stat.version))
            else:
                self._resign()
            if not self._registered():
                return
            if self._elect(epoch, version, replaced):
                self._tell()

    def _resign(self) -> None:
        self._elected_in = None
        self._tell()

    def _left_by_us(self, stat: NodeStat) -> bool:
        """Whether the controller node was left by an earlier process of this broker.

        It names this broker's id, which this session holds; or it is this session's own, from an
        election whose answer was lost.
        """
        if stat.ephemeral_owner == self._session.session_id:
            return True
        return current_controller(self._session) == self._broker_id and self._registered()

    def _registered(self) -> bool:
        """Whether this session registered the broker; the loop looks again when that changes."""
        stat = self._session.exists(paths.broker(self._broker_id), self._loop)
        return stat is not None and stat.ephemeral_owner == self._session.session_id

    def _elect(self, epoch: int, version: int | None, replaced: list[Operation]) -> bool:
        generation = self._session.generation
        number = b"%d" % (epoch + 1)
        raised: Operation = (
            Create(paths.CONTROLLER_EPOCH, number)
            if version is None
            else SetData(paths.CONTROLLER_EPOCH, number, version)
        )
        registration = {
            "version": 1,
            "brokerid": self._broker_id,
            "timestamp": str(int(time.time() * 1000)),
        }
        data = json.dumps(registration, separators=(",", ":")).encode()
        try:
            self._session.transaction(
                [raised, *replaced, Create(paths.CONTROLLER, data, ephemeral=True)]
            )
        except TransactionFailed as refused:
            logger.debug("election repeated broker=%d cause=%s", self._broker_id, refused)
            return False
        self.epoch = epoch + 1
        self.epoch_version = 0 if version is None else version + 1
        self._elected_in = generation
        logger.info("controller elected broker=%d epoch=%d", self._broker_id, self.epoch)
        return True

    def _tell(self) -> None:
        """Call back when this broker was elected or resigned since the last call."""
        holds = self.is_controller
        if holds and not self._told:
            self._told = True
            self._on_elected(self.epoch)
        elif not holds and self._told:
            self._told = False
            logger.info("controller resigned broker=%d epoch=%d", self._broker_id, self.epoch)
            self._on_resigned()
