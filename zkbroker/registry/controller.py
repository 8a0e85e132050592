"""Election of the controller among the brokers.

    /controller        {"version":1,"brokerid":0,"timestamp":"ms"}   ephemeral: who it is
    /controller_epoch  number, grows by one at every election

Invariant: `/controller` is created and the epoch is raised in one transaction, under the epoch's
node version that was read before, so that no two elections share an epoch. A broker whose session
is lost is not the controller any more before anything else happens. The office that a dead
predecessor of this broker left behind, in a session that has not run out yet, is taken over.
"""

import contextlib
import json
import logging
import time
from collections.abc import Callable

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.errors import NoNode, TransactionFailed
from zkbroker.registry.nodes import Create, Delete, NodeStat, Operation, SetData, Settable
from zkbroker.registry.session import SessionState, ZkSession
from zkbroker.runtime import Task

logger = logging.getLogger(__name__)

RETRY_S = 0.5


def current_controller(session: ZkSession, watch: Settable | None = None) -> int | None:
    """Return the id of the broker that is the controller, None while there is none."""
    if watch is not None:
        # Watches the node whether it exists or not.
        session.exists(paths.CONTROLLER, watch)
    try:
        return int(json.loads(session.get(paths.CONTROLLER)[0])["brokerid"])
    except NoNode:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise RegistryError(f"{paths.CONTROLLER} names no broker") from error


def controller_epoch(session: ZkSession) -> int:
    """Return the epoch of the last election, 0 before the first."""
    return _read_epoch(session)[0]


def _read_epoch(session: ZkSession) -> tuple[int, int | None]:
    try:
        data, stat = session.get(paths.CONTROLLER_EPOCH)
    except NoNode:
        return 0, None
    try:
        return int(data), stat.version
    except ValueError as error:
        raise RegistryError(f"{paths.CONTROLLER_EPOCH} holds no number: {data[:50]!r}") from error


class ControllerElection:
    """Stands for controller for as long as the broker lives.

    Args:
        session: a started session, the one the broker is registered in.
        broker_id: who stands.
        on_elected: called with the epoch, from the election's task.
        on_resigned: called from the election's task when the office was lost.
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
        self._changed = session.runtime.event()
        self._closed = False
        self._task: Task | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._elected_in: int | None = None
        self._told = False
        self.epoch = 0

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
            RegistryError: ZooKeeper does not answer.
        """
        self._unsubscribe = self._session.on_state(lambda state: self._changed.set())
        self._stand()
        self._task = self._session.runtime.spawn(self._run, name="controller-election")

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Leave the office, if held, and stop."""
        self._closed = True
        self._unsubscribe()
        self._changed.set()
        if self._task is not None:
            self._task.join(timeout_s)
        if self.is_controller and self._session.state is SessionState.CONNECTED:
            with contextlib.suppress(RegistryError):
                self._session.delete(paths.CONTROLLER, missing_ok=True)
        self._elected_in = None
        self._tell()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._closed or self._session.closed:
                return
            try:
                self._tell()
                if self._session.state is SessionState.CONNECTED:
                    self._stand()
            except RegistryError as error:
                if self._closed or self._session.closed:
                    return
                logger.warning("election failed broker=%d error=%s", self._broker_id, error)
                self._session.runtime.sleep(RETRY_S)
                self._changed.set()

    def _stand(self) -> None:
        while not self._closed:
            # Read before the office: whoever is elected after this makes our election fail.
            epoch, version = _read_epoch(self._session)
            stat = self._session.exists(paths.CONTROLLER, self._changed)
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
            if self._elect(epoch, version, replaced):
                self._tell()

    def _resign(self) -> None:
        self._elected_in = None
        self._tell()

    def _left_by_us(self, stat: NodeStat) -> bool:
        """Whether the office is held by nobody but a predecessor of this broker.

        It names this broker's id, which this session holds; or it is this session's own, from an
        election whose answer was lost.
        """
        if stat.ephemeral_owner == self._session.session_id:
            return True
        if current_controller(self._session) != self._broker_id:
            return False
        registered = self._session.exists(paths.broker(self._broker_id))
        return registered is not None and registered.ephemeral_owner == self._session.session_id

    def _elect(self, epoch: int, version: int | None, replaced: list[Operation]) -> bool:
        generation = self._session.generation
        number = b"%d" % (epoch + 1)
        raised: Operation = (
            Create(paths.CONTROLLER_EPOCH, number)
            if version is None
            else SetData(paths.CONTROLLER_EPOCH, number, version)
        )
        office = {
            "version": 1,
            "brokerid": self._broker_id,
            "timestamp": str(int(time.time() * 1000)),
        }
        data = json.dumps(office, separators=(",", ":")).encode()
        try:
            self._session.transaction(
                [raised, *replaced, Create(paths.CONTROLLER, data, ephemeral=True)]
            )
        except TransactionFailed as refused:
            logger.debug("election repeated broker=%d cause=%s", self._broker_id, refused)
            return False
        self.epoch = epoch + 1
        self._elected_in = generation
        logger.info("controller elected broker=%d epoch=%d", self._broker_id, self.epoch)
        return True

    def _tell(self) -> None:
        """Call back when the office was won or lost since the last call."""
        holds = self.is_controller
        if holds and not self._told:
            self._told = True
            self._on_elected(self.epoch)
        elif not holds and self._told:
            self._told = False
            logger.info("controller resigned broker=%d epoch=%d", self._broker_id, self.epoch)
            self._on_resigned()
