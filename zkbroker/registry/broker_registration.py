"""A broker's own registration, kept for as long as the broker lives.

    register ---- the node is free -----------------------------------> registered
       |                                                                 |  ^
       +-- it is our predecessor's, provably dead: replace in one step --+  |
       +-- else wait until the session that holds it has expired ---------+ |
       +-- still there after that: BrokerIdInUse (fatal)                    |
    registered -- session lost, or node removed --> register again ---------+

A node belongs to a dead predecessor of this broker if its session is recorded in our data directory
(whose lock we hold, so that the predecessor cannot run), or if it names an address of this machine,
other than a loopback address, on which we listen ourselves. A loopback address proves nothing: two
machines may both advertise `localhost:9092`.
"""

import ipaddress
import json
import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from zkbroker.errors import RegistryError
from zkbroker.private_files import write_private
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo, deregister_broker, prepare_tree
from zkbroker.runtime import OwnerLoop
from zkbroker.zookeeper.errors import BrokerIdInUse, NodeExists, NoNode, TransactionFailed
from zkbroker.zookeeper.nodes import Create, Delete, NodeStat
from zkbroker.zookeeper.session import SessionState, ZkSession

logger = logging.getLogger(__name__)

RETRY_S = 0.5


class SessionRecord:
    """A small file with the ZooKeeper session of the broker that last used a data directory.

    Args:
        path: the file, in a directory whose lock the caller holds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> int | None:
        """Return the recorded session id, None without a readable record."""
        try:
            return int(json.loads(self._path.read_text())["session"], 16)
        except (OSError, ValueError, KeyError, TypeError):
            # The record only saves time: without it the broker waits for the stale node to expire.
            return None

    def save(self, session_id: int) -> None:
        """Record a session id.

        Raises:
            OSError: the file cannot be written.
        """
        temporary = self._path.with_name(self._path.name + ".tmp")
        # A file of that name is replaced and never followed: it may be a planted symbolic link.
        temporary.unlink(missing_ok=True)
        text = json.dumps({"version": 1, "session": f"{session_id:#x}"})
        write_private(temporary, text.encode(), os.O_EXCL)
        temporary.replace(self._path)


def register_broker(
    session: ZkSession,
    info: BrokerInfo,
    *,
    predecessor_session: int | None = None,
    listening: bool = False,
    wait_ms: int | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> None:
    """Register a broker under `/brokers/ids/[id]`.

    Args:
        session: a started session; the registration lives as long as it does.
        info: what to register.
        predecessor_session: the session of an earlier process of this broker, known to be dead.
        listening: whether we already hold the port of `info` ourselves.
        wait_ms: how long to wait for a stale node to expire; by default one and a half of our own
            session time-outs, since the predecessor had the same.
        cancelled: called during the wait; true ends it with RegistryError.

    Raises:
        BrokerIdInUse: another broker holds the id.
    """
    path = paths.broker(info.id)
    if wait_ms is None:
        wait_ms = session.session_timeout_ms * 3 // 2 + 1000
    deadline = time.monotonic() + wait_ms / 1000
    gone = session.runtime.event()
    warned = False
    while not cancelled():
        try:
            session.create(path, info.to_json(), ephemeral=True, parents=True)
            break
        except NodeExists:
            pass
        gone.clear()
        try:
            data, stat = session.get(path, gone)
        except NoNode:
            continue
        if stat.ephemeral_owner == session.session_id:
            # Our own node: the answer to its creation was lost, or this call updates it.
            session.set(path, info.to_json())
            break
        holder = _readable(info.id, data)
        if _provably_dead(info, holder, stat, predecessor_session, listening=listening):
            if _replace(session, path, stat, info):
                logger.info(
                    "dead registration replaced id=%d session=0x%x", info.id, stat.ephemeral_owner
                )
                break
            continue
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise BrokerIdInUse(
                f"broker id {info.id} is in use by a broker at "
                f"{holder.address if holder else 'an unreadable address'}: "
                "stop that broker, or give this one another broker.id"
            )
        if not warned:
            warned = True
            logger.warning("broker id in use, waiting id=%d at_most_s=%.1f", info.id, left_s)
        gone.wait(min(left_s, RETRY_S))
    else:
        raise RegistryError(f"registration of broker {info.id} was cancelled")
    logger.info("broker registered id=%d address=%s", info.id, info.address)


def _readable(broker_id: int, data: bytes) -> BrokerInfo | None:
    try:
        return BrokerInfo.from_json(broker_id, data)
    except RegistryError:
        return None


def _provably_dead(
    info: BrokerInfo,
    holder: BrokerInfo | None,
    stat: NodeStat,
    predecessor_session: int | None,
    *,
    listening: bool,
) -> bool:
    if stat.ephemeral_owner == 0:
        # A broker's node is ephemeral; one that is not was created by hand.
        return False
    if predecessor_session is not None and stat.ephemeral_owner == predecessor_session:
        return True
    same_place = holder is not None and (holder.host, holder.port) == (info.host, info.port)
    return same_place and listening and _only_here(info.host)


def _only_here(host: str) -> bool:
    """Whether a host stands for this machine only, also when other machines use the name."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        number = ipaddress.ip_address(str(address[0]).partition("%")[0])
        if number.is_loopback or number.is_unspecified or number.is_link_local:
            return False
        with socket.socket(family, kind, protocol) as probe:
            try:
                probe.bind((address[0], 0))
            except OSError:
                return False
    return bool(found)


def _replace(session: ZkSession, path: str, stat: NodeStat, info: BrokerInfo) -> bool:
    try:
        session.transaction(
            [Delete(path, stat.version), Create(path, info.to_json(), ephemeral=True)]
        )
    except TransactionFailed:
        return False
    return True


class BrokerRegistration:
    """Keeps a broker registered.

    Args:
        session: a started session.
        info: what to register.
        record: stores the session, so that a successor need not wait until it expires.
        on_registered: called after every registration, the first time in `start`, later in the
            loop's task: it registers partitions and stands for controller. If it raises
            RegistryError later, it is called again.
    """

    def __init__(
        self,
        session: ZkSession,
        info: BrokerInfo,
        *,
        record: SessionRecord | None = None,
        on_registered: Callable[[], object] = lambda: None,
    ) -> None:
        self._session = session
        self._info = info
        self._record = record
        self._on_registered = on_registered
        self._loop = OwnerLoop(
            session.runtime,
            self._check,
            name="broker-registration",
            logger=logger,
            retry_s=RETRY_S,
            foreseen=(RegistryError, OSError),
            ready=session.wait_connected,
            ended=lambda: session.closed,
        )
        self._predecessor = record.load() if record is not None else None
        self._registered_in = 0
        self._unsubscribe: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Register, and stay registered from then on.

        The caller holds the port of the address that is registered.

        Raises:
            BrokerIdInUse: another broker holds the id.
            RegistryError: ZooKeeper does not answer.
        """
        self._unsubscribe = self._session.on_state(self._state_changed)
        try:
            prepare_tree(self._session)
            self._register()
        except RegistryError:
            self._unsubscribe()
            raise
        self._loop.start()

    def close(self, timeout_s: float | None = 10.0) -> None:
        """Deregister and stop."""
        self._unsubscribe()
        self._loop.close(timeout_s)
        if self._session.state is SessionState.CONNECTED:
            try:
                deregister_broker(self._session, self._info.id)
            except RegistryError as error:
                logger.warning("broker not deregistered id=%d error=%s", self._info.id, error)

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._loop.set()

    def _register(self) -> None:
        session_id = self._session.session_id
        register_broker(
            self._session,
            self._info,
            predecessor_session=self._predecessor,
            listening=True,
            cancelled=lambda: self._loop.closed,
        )
        self._predecessor = session_id
        if self._record is not None:
            try:
                self._record.save(session_id)
            except OSError as error:
                # The record only saves a restarted broker the wait for its own stale node.
                logger.warning("session not recorded error=%s", error)
        self._on_registered()
        self._registered_in = session_id
        # The watch fires when the node is removed.
        self._session.exists(paths.broker(self._info.id), self._loop)

    def _check(self) -> None:
        stat = self._session.exists(paths.broker(self._info.id), self._loop)
        mine = stat is not None and stat.ephemeral_owner == self._session.session_id
        if not mine or self._registered_in != self._session.session_id:
            self._register()
