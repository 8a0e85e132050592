"""Helpers of the tests against a real ZooKeeper."""

import socket
import struct
import time
from collections.abc import Callable

import gevent

from zkbroker.zookeeper import ZkSession

ENDED_WITHIN_S = 30


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
            thief.settimeout(2)
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


def _received(thief: socket.socket) -> bytes:
    """Return what came; nothing when the server closed the connection, or said nothing in time."""
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


def until(condition: Callable[[], bool], timeout_s: float = 60) -> None:
    """Wait for what another task or process brings about."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the awaited condition did not come true"
        gevent.sleep(0.01)
