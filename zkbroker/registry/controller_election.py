"""Election of the controller among the brokers.

    /controller        {"version":1,"brokerid":0,"timestamp":"ms"}   ephemeral: its broker
    /controller_epoch  number, grows by one at every election

Invariant: one transaction creates `/controller` and raises the epoch, under the version of the
epoch node that was read before, so that no two elections share an epoch. A broker that loses its
session stops being the controller at once, and stands again only when it is registered in its next
session: a controller that did not find itself among the live brokers would take its own partitions
away. A node that a dead predecessor of this broker left, in a session that has not expired yet, is
replaced.
"""

import contextlib
import logging
import time
from collections.abc import Callable

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import int32, read_json, write_json
from zkbroker.registry.optional_nodes import read_node
from zkbroker.runtime import OwnerLoop
from zkbroker.zookeeper.errors import TransactionFailed
from zkbroker.zookeeper.nodes import Create, Delete, Operation, SetData, Settable
from zkbroker.zookeeper.session import SessionState, ZkSession
from zkbroker.zookeeper.watching import WatchLoop

logger = logging.getLogger(__name__)

RETRY_S = 0.5


def current_controller(session: ZkSession, watch: Settable | None = None) -> int | None:
    """Return the broker id of the controller, None while there is none."""
    found = read_node(session, paths.CONTROLLER, watch)
    if found is None:
        return None
    try:
        return int32(read_json(found[0])["brokerid"])
    except (ValueError, TypeError, KeyError) as error:
        raise RegistryError(
            f"{paths.CONTROLLER} names no broker: delete that node, so that a controller is elected"
        ) from error


def controller_epoch(session: ZkSession) -> int:
    """Return the epoch of the last election, 0 before the first."""
    return _read_epoch(session)[0]


def _read_epoch(session: ZkSession) -> tuple[int, int | None]:
    found = read_node(session, paths.CONTROLLER_EPOCH)
    if found is None:
        return 0, None
    data, stat = found
    try:
        return int32(data), stat.version
    except ValueError as error:
        raise RegistryError(
            f"{paths.CONTROLLER_EPOCH} holds no number: {data[:50]!r}; set it to a number above "
            "every controller_epoch in the partitions' state nodes"
        ) from error


class ControllerWatch(WatchLoop[int | None]):
    """Keeps the id of the controller up to date; see `WatchLoop`."""

    def __init__(self, session: ZkSession, on_change: Callable[[int | None], object]) -> None:
        super().__init__(
            session,
            lambda watch: current_controller(session, watch),
            on_change,
            name="watch-controller",
        )


class ControllerElection:
    """Makes a broker stand for controller until it stops.

    Args:
        session: a started session, in which the broker is registered.
        broker_id: the candidate.
        on_elected: called with the epoch after an election.
        on_resigned: called when this broker is no longer the controller.
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
            self._check,
            name="controller-election",
            logger=logger,
            retry_s=RETRY_S,
            foreseen=(RegistryError,),
            ended=lambda: session.closed,
        )
        self._unsubscribe: Callable[[], None] = lambda: None
        self._elected_in: int | None = None
        self._reported = False
        self.epoch = 0
        self.epoch_version = -1
        """Version of `/controller_epoch` since the last election. This controller's changes check
        it, so that a deposed controller changes nothing."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, in a session that is not known to be lost."""
        return (
            self._elected_in is not None
            and self._elected_in == self._session.generation
            and self._session.state is not SessionState.LOST
        )

    def start(self) -> None:
        """Stand for the first time and keep standing.

        Raises:
            RegistryError: ZooKeeper does not answer; `start` may be called again.
        """
        self._stand()
        self._unsubscribe = self._session.on_state(lambda state: self._loop.set())
        # Check again at once: changes of the session were not seen until now.
        self._loop.start(first_s=0.0)

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Resign, if elected, and stop."""
        self._unsubscribe()
        self._loop.close(timeout_s)
        if self.is_controller and self._session.state is SessionState.CONNECTED:
            with contextlib.suppress(RegistryError):
                self._session.delete(paths.CONTROLLER, missing_ok=True)
        self._elected_in = None
        self._report()

    def forfeit(self, epoch: int) -> None:
        """Stand again: a change was refused as that of a deposed controller.

        Args:
            epoch: of the election under which the change was made; if there has been another
                election since, nothing happens.
        """
        if epoch == self.epoch:
            self._elected_in = None
            self._loop.set()

    def _check(self) -> None:
        # Even without a connection: a broker that lost its session has resigned.
        self._report()
        if self._session.state is SessionState.CONNECTED:
            self._stand()

    def _stand(self) -> None:
        while not self._loop.closed:
            # Read before the controller node, so that an election in between makes ours fail.
            epoch, version = _read_epoch(self._session)
            stat = self._session.exists(paths.CONTROLLER, self._loop)
            own = stat is not None and stat.ephemeral_owner == self._session.session_id
            if own and self.is_controller:
                return
            self._elected_in = None
            self._report()
            replaced: list[Operation] = []
            if stat is not None:
                # Its own, from an election whose answer was lost, or that of an earlier process of
                # this broker: it names this broker's id, which this session must have registered.
                if not own and current_controller(self._session) != self._broker_id:
                    return
                replaced.append(Delete(paths.CONTROLLER, stat.version))
            if not self._registered():
                return
            if self._elect(epoch, version, replaced):
                self._report()

    def _registered(self) -> bool:
        """Whether this session registered the broker; a change wakes the loop."""
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
        data = write_json(registration)
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

    def _report(self) -> None:
        """Call back when this broker was elected or resigned since the last call."""
        holds = self.is_controller
        if holds and not self._reported:
            self._reported = True
            self._on_elected(self.epoch)
        elif not holds and self._reported:
            self._reported = False
            logger.info("controller resigned broker=%d epoch=%d", self._broker_id, self.epoch)
            self._on_resigned()
