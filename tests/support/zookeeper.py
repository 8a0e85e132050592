"""Helpers of the tests against a real ZooKeeper."""

import contextlib
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gevent

from zkbroker.zookeeper import ZkSession

ENDED_WITHIN_S = 60


_SUPER_SECRET, _MULTIPLIER, _BITS = 0xB3415C00, 0x5DEECE66D, (1 << 48) - 1


def password_of(session_id: int) -> bytes:
    """Return the password that ZooKeeper makes of a session's id, with Java's `Random`."""
    state = (session_id ^ _SUPER_SECRET ^ _MULTIPLIER) & _BITS
    password = b""
    for _ in range(4):
        state = (state * _MULTIPLIER + 0xB) & _BITS
        password += (state >> 16).to_bytes(4, "little")
    return password


def end_session(hosts: str, identity: tuple[int, bytes]) -> None:
    """Close a session from a second connection, as if the server had expired it.

    Raises:
        TimeoutError: the server did not say that the session is over.
    """
    session_id, password = identity
    connect = struct.pack(">iqiqi16s?", 0, 0, 10_000, session_id, 16, password, False)
    close = struct.pack(">ii", 1, -11)
    host, _, port = hosts.split(",")[0].rpartition(":")
    deadline = time.monotonic() + ENDED_WITHIN_S
    while time.monotonic() < deadline:
        with socket.create_connection((host, int(port)), 10) as thief:
            thief.settimeout(5)
            thief.sendall(
                b"".join(struct.pack(">i", len(part)) + part for part in (connect, close))
            )
            answer = b""
            while part := _received(thief):
                answer += part
        negotiated_ms = struct.unpack_from(">i", answer, 8)[0] if len(answer) >= 12 else -1
        # The answer to the connection is 41 bytes, that to the closing 20 more. Without the second
        # the owner took its session back in between: once more.
        if negotiated_ms == 0 or len(answer) >= 61:
            return
    raise TimeoutError(f"session {session_id:x} is not over after {ENDED_WITHIN_S} s")


@contextlib.contextmanager
def end_sessions_of(pid: int | None, hosts: str) -> Iterator[None]:
    """End the sessions that a process has when the block begins, after the block.

    Args:
        pid: the process; None for none.
        hosts: `host:port` of each server, with commas between. One that does not answer, or stands
            behind a proxy, keeps its sessions.
    """
    ports = set() if pid is None else _local_ports(pid)
    found = [(host, _sessions(host, ports)) for host in hosts.split(",") if ports]
    yield
    for host, sessions in found:
        for each in sessions:
            end_session(host, (each, password_of(each)))


def _local_ports(pid: int) -> set[int]:
    """Return the ports of this machine at which a process has connections."""
    sockets = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            sockets.add(str(descriptor.readlink()))
    tables = (Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = (line.split() for table in tables for line in table)
    return {int(row[1].rpartition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in sockets}


def _sessions(host: str, ports: set[int]) -> list[int]:
    """Ask a server for the sessions of its connections that come from these ports."""
    name, _, port = host.rpartition(":")
    received = b""
    with contextlib.suppress(OSError), socket.create_connection((name, int(port)), 5) as asked:
        asked.sendall(b"cons")
        while part := asked.recv(65536):
            received += part
    lines = re.findall(r"^ */[\d.]+:(\d+)\[.*sid=0x([0-9a-f]+)", received.decode(), re.MULTILINE)
    return [int(session, 16) for of_client, session in lines if int(of_client) in ports]


def _received(thief: socket.socket) -> bytes:
    """Return the bytes of an answer; none when the server closed the connection, or was silent."""
    try:
        return thief.recv(1024)
    except (ConnectionResetError, TimeoutError):
        return b""


def expire(session: ZkSession) -> None:
    """End the session on the server as if its time had run out."""
    identity = session._live().client_id
    if session.runtime.name == "gevent":
        gevent.get_hub().threadpool.apply(end_session, (session.hosts, identity))
    else:
        end_session(session.hosts, identity)


def until(condition: Callable[[], bool], timeout_s: float = 120) -> None:
    """Wait for a condition that another task or process fulfils."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the awaited condition did not come true"
        gevent.sleep(0.03)
