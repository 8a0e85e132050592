"""One connection with requests in flight: frames out in order, answers back in the same order.

Invariant: an entry is in `_in_flight` before the first byte of its request is written, and leaves
it exactly once, by its answer or by the failure of the channel. No lock is held during a wait for
the network: of several senders one writes for all, and the others leave their frames with it. The
last of the reader and the writer closes the transport: the number of a closed socket may be that of
a new one when a call enters the system.
"""

import socket
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from zkbroker.errors import AuthenticationFailed, NetworkError
from zkbroker.network.frames import FrameError, FrameReader
from zkbroker.network.transport import Part, SocketTransport
from zkbroker.runtime import Runtime
from zkbroker.runtime.forks import abandon_in_child, made_before_fork

if TYPE_CHECKING:
    from zkbroker.network.client.connection import Pending

MAX_RESPONSE_BYTES = 512 * 1024 * 1024


class Channel:
    """A connected transport, its reader task and the requests in flight.

    Args:
        runtime: threads or gevent.
        transport: a connected one of that runtime; the channel owns it.
        peer: `host:port`, for messages.
        max_frame_bytes: the longest answer that is accepted.
        hint: added to the error if the broker closes the connection after its first answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        transport: SocketTransport,
        peer: str,
        max_frame_bytes: int,
        hint: str = "",
    ) -> None:
        self._transport = transport
        self._peer = peer
        self._runtime = runtime
        self._lock = runtime.lock()
        self._outbox: deque[tuple[Sequence[Part], Pending]] = deque()
        self._in_flight: deque[Pending] = deque()
        self._writing = False
        self._reading = True
        self.error: NetworkError | None = None
        """Why the channel is closed; None while it is open."""
        self._hint = hint
        self.answers = 0
        """How many answers have arrived."""
        self._reader = FrameReader(transport.receive_into, max_frame_bytes)
        runtime.spawn(self._read_answers, name=f"answers-{peer}")
        abandon_in_child(self)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight) + len(self._outbox)

    def send(self, parts: Sequence[Part], entry: "Pending") -> None:
        """Write a request, or leave it with the sender that is writing now.

        Raises:
            NetworkError: the channel is closed; the entry is not finished then.
        """
        with self._lock:
            if self.error is not None:
                raise self.error
            self._outbox.append((parts, entry))
            if self._writing:
                return
            self._writing = True
        interrupted: BaseException | None = None
        while True:
            with self._lock:
                batch = list(self._outbox)
                self._outbox.clear()
                if not batch or self.error is not None:
                    self._writing = False
                    unused = not self._reading
                    break
                self._in_flight.extend(entry for _, entry in batch if entry.expects_answer)
            try:
                self._write(batch)
            except BaseException as error:  # noqa: BLE001 - raised below
                interrupted = error
        if unused:
            self._transport.close()
        self._finish_all([entry for _, entry in batch])
        if interrupted is not None:
            raise interrupted

    def close(self, error: NetworkError) -> None:
        """Close the channel and finish every open entry with `error`; later calls do nothing."""
        with self._lock:
            if self.error is not None:
                return
            self.error = error
            entries = list(self._in_flight)
            self._in_flight.clear()
            if not self._writing:
                entries += [entry for _, entry in self._outbox]
                self._outbox.clear()
            # Wakes the reader and a blocked writer, which closing alone does not. Under the lock,
            # so that neither of them has closed the socket before.
            self._transport.shut_down(socket.SHUT_RDWR)
        self._finish_all(entries)

    def abandon_after_fork(self) -> None:
        """Close the child's copy after a fork; a shutdown would end the parent's connection too."""
        self._lock = self._runtime.lock()
        self.error = NetworkError(made_before_fork(f"connection to {self._peer}"))
        self._in_flight.clear()
        self._outbox.clear()
        self._transport.close()

    def _write(self, batch: "list[tuple[Sequence[Part], Pending]]") -> None:
        parts = [part for frame, _ in batch for part in frame]
        silent = [entry for _, entry in batch if not entry.expects_answer]
        try:
            self._transport.send(parts)
        except BaseException as error:
            # Whatever the error, a frame may be cut: nothing can follow it.
            failure = NetworkError(f"connection to {self._peer} failed while sending: {error}")
            self.close(failure)
            self._finish_all(silent)
            if isinstance(error, OSError):
                return
            raise
        for entry in silent:
            entry.finish(None, None)

    def _finish_all(self, entries: "list[Pending]") -> None:
        for entry in entries:
            entry.finish(None, self.error)

    def _read_answers(self) -> None:
        reason = "an answer could not be processed, see the log"
        failure: type[NetworkError] = NetworkError
        try:
            while (frame := self._reader.next_frame()) is not None:
                if not self._answer(frame):
                    reason = "closed here: an answer arrived that belongs to no request"
                    return
            reason = "closed by the broker"
            if self.answers == 1 and self._in_flight:
                reason += self._hint
        except OSError as error:
            reason = str(error)
        except FrameError as error:
            reason = error.explained()
            if error.met_tls:
                failure = AuthenticationFailed
        finally:
            # Reading has ended: no request may wait for an answer any more.
            self.close(failure(f"connection to {self._peer} lost: {reason}"))
            with self._lock:
                self._reading = False
                unused = not self._writing
            if unused:
                self._transport.close()

    def _answer(self, frame: memoryview) -> bool:
        if len(frame) < 4:
            return False
        with self._lock:
            if not self._in_flight:
                return False
            entry = self._in_flight[0]
            if int.from_bytes(frame[:4], "big", signed=True) != entry.correlation_id:
                return False
            self._in_flight.popleft()
        self.answers += 1
        entry.finish(frame, None)
        return True
