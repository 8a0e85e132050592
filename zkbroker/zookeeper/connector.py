"""The connection of the ZooKeeper client: kazoo's, but requests and answers travel in batches.

    requests --> queue, and one wake-up --> all of them, in one write
    one read --> complete answers, each to its request; a partial one waits for the next read

Invariants: a wake-up is never lost and never waits; while one is pending, another is not needed.
Requests leave in the order in which they were made. No complete answer is left in the buffer while
the connection waits for its socket. A request that waited for longer than its time-out is dropped
from the queue instead of being sent.
"""

import ssl
import time
from collections.abc import Callable
from typing import Any

import kazoo.exceptions as kz
from kazoo.protocol.connection import ConnectionDropped

from zkbroker.runtime import Runtime
from zkbroker.zookeeper.handlers import READY_IN_A_ROW
from zkbroker.zookeeper.login import BoundedLogin, ZkLoginGate

SENT_AT_ONCE = 100
"""The most requests sent before answers are read, so that neither side fills the other's buffers.
"""
READ_AT_ONCE = 64 * 1024
"""The most bytes of answers that are read together."""


class Connector(BoundedLogin):
    """Kazoo's connection; see the module.

    Args:
        client: the client of the requests.
        retry_sleeper: of the client.
        runtime: resolves names.
        on_granted: called with the granted session timeout, in seconds, at every connection.
        request_timeout_s: how long a request may wait to be sent.
        gate: holds back the report of a connection until its login is complete.
        sasl_options: of the client.
        logger: of the client.
    """

    def __init__(
        self,
        client: Any,
        retry_sleeper: Any,
        *,
        runtime: Runtime,
        on_granted: Callable[[float], object],
        request_timeout_s: float,
        gate: ZkLoginGate,
        sasl_options: Any,
        logger: Any,
    ) -> None:
        super().__init__(client, retry_sleeper, logger=logger, sasl_options=sasl_options)
        self._gate = gate
        self._runtime = runtime
        self._on_granted = on_granted
        self._request_timeout_s = request_timeout_s
        self._answers: AnswerBuffer | None = None
        self._unsent: bytearray | None = None

    def _expand_client_hosts(self) -> Any:
        return self._runtime.offload(super()._expand_client_hosts)

    def _connect(self, host: Any, hostip: Any, port: Any) -> Any:
        self._answers = self._unsent = None
        with self._gate.login():
            answer = super()._connect(host, hostip, port)
        for state in self._gate.held():
            self.client._session_callback(state)
        # Kazoo's read time-out, in milliseconds, is two thirds of the granted session timeout.
        self._on_granted(answer[0] * 1.5 / 1000)
        # Not before this: the handshake reads its own answers.
        self._answers = AnswerBuffer()
        return answer

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Send the queued requests, in the connection's own task, after a wake-up."""
        # Emptied first: a request that is queued from here on makes a new wake-up.
        self._read_sock.empty()
        self._unsent = bytearray()
        try:
            for _ in range(SENT_AT_ONCE):
                self._drop_timed_out()
                if not self.client._queue:
                    break
                super()._send_request(read_timeout, connect_timeout)
            else:
                self._write_sock.send(b"\0")
        finally:
            # Even after an error, which ends the connection and fails the requests.
            together, self._unsent = self._unsent, None
        if together:
            super()._write(together, connect_timeout)

    def _write(self, msg: Any, timeout: float) -> None:
        if self._unsent is None:
            super()._write(msg, timeout)
        else:
            self._unsent += msg

    def _read_socket(self, read_timeout: float) -> Any:
        """Read the answers that have arrived; called when the socket is readable."""
        answer = super()._read_socket(read_timeout)
        answers, in_a_row = self._answers, 0
        # A partial answer stays: the connection wakes up when the rest arrives.
        while answer is None and answers is not None and answers.has_whole:
            in_a_row += 1
            if not in_a_row % READY_IN_A_ROW:
                self.handler.sleep_func(0)
            answer = super()._read_socket(read_timeout)
        return answer

    def _read(self, length: int, timeout: float) -> Any:
        answers = self._answers
        if answers is None:
            return super()._read(length, timeout)
        while len(answers) < length:
            self._receive(answers, timeout)
        return answers.take(length)

    def _receive(self, answers: "AnswerBuffer", timeout: float) -> None:
        with self._socket_error_handling():
            pending = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
            if not pending and not self.handler.select([self._socket], [], [], timeout)[0]:
                raise self.handler.timeout_exception("socket time-out during read")
            try:
                received = self._socket.recv(READ_AT_ONCE)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not received:
                raise ConnectionDropped("socket connection broken")
            answers.add(received)

    def _drop_timed_out(self) -> None:
        queue = self.client._queue
        oldest = time.monotonic() - self._request_timeout_s
        # The queue is ordered by age, since every request is queued when it is made.
        while queue and queue[0][1] is not None and queue[0][1].made_at < oldest:
            _, result = queue.popleft()
            result.set_exception(kz.OperationTimeoutError())


class AnswerBuffer:
    """Bytes of answers that were received and not read yet."""

    __slots__ = ("_at", "_bytes")

    def __init__(self) -> None:
        self._bytes = b""
        self._at = 0

    def __len__(self) -> int:
        return len(self._bytes) - self._at

    @property
    def has_whole(self) -> bool:
        """Whether the buffer holds a complete answer: 4 bytes with its length, and its bytes."""
        return len(self) >= 4 and len(self) - 4 >= int.from_bytes(
            self._bytes[self._at : self._at + 4], "big", signed=True
        )

    def add(self, received: bytes) -> None:
        self._bytes = self._bytes[self._at :] + received
        self._at = 0

    def take(self, length: int) -> bytes:
        """Return and remove the first bytes; the buffer must hold that many."""
        taken = self._bytes[self._at : self._at + length]
        self._at += length
        return taken
