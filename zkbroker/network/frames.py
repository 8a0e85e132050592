"""Frames: `size:int32 (big-endian) · size bytes`, cut out of a stream of bytes.

Invariant: every frame is received into a buffer of its own, writable and never reused, so that
what is decoded from it may keep views of it; memory is taken as bytes arrive, not as the length
prefix promises, so that a peer that announces much and sends nothing costs nothing. (A large frame
is a mapping of its own, of which the system gives the pages that are written.)

The reader knows no socket: it calls `receive_into(view) -> count`, which waits for at least one
byte and returns 0 at the end of the stream. Blocking sockets and gevent's hub both fit.
"""

import mmap
import struct
from collections.abc import Callable

from zkbroker.errors import ZkbrokerError

SCRATCH_BYTES = 4096
_FIRST_BUFFER_BYTES = 64 * 1024
_GROWTH = 4
_READ_BYTES = 1024 * 1024
_MAPPED_BYTES = 4 * 1024 * 1024
_TLS_ALERT = b"\x15\x03"
_NOTHING = memoryview(b"")
_length = struct.Struct(">i").unpack_from


class FrameError(ZkbrokerError):
    """The stream of bytes cannot be cut into frames; the connection must be closed.

    `start` holds the four bytes that should have been a length, where a frame did not follow.
    """

    def __init__(self, message: str, start: bytes = b"") -> None:
        super().__init__(message)
        self.start = start

    @property
    def met_tls(self) -> bool:
        """Whether the peer seems to speak TLS."""
        return self.start[:2] == _TLS_ALERT

    def explained(self) -> str:
        """Return the message, with what the peer seems to speak where it speaks TLS."""
        if self.met_tls:
            return "the broker speaks TLS at this port: set security.protocol=SSL (or SASL_SSL)"
        return str(self)


class FrameReader:
    """Cuts one stream into frames.

    Args:
        receive_into: fills a writable view from the stream; see the module.
        max_frame_bytes: a longer frame is refused before memory is taken for it.
        scratch: where the first bytes of a frame land. Readers that are never between
            `receive_into` and its return at the same time (greenlets of one hub) may share one.
    """

    __slots__ = (
        "_receive_into",
        "_rest",
        "_scratch",
        "_trusted",
        "charge",
        "in_frame",
        "max_frame_bytes",
    )

    def __init__(
        self,
        receive_into: Callable[[memoryview], int],
        max_frame_bytes: int,
        scratch: memoryview | None = None,
    ) -> None:
        self._receive_into = receive_into
        self.max_frame_bytes = max_frame_bytes
        """The longest frame that is taken; it may change between frames."""
        self._scratch = memoryview(bytearray(SCRATCH_BYTES)) if scratch is None else scratch
        self._rest = _NOTHING
        self._trusted = _FIRST_BUFFER_BYTES
        self.charge: Callable[[int], object] | None = None
        """Called with each part of a frame above the first buffer once it has come; may wait."""
        self.in_frame = False
        """Whether the first byte of a frame has come and its last has not."""

    def next_frame(self) -> memoryview | None:
        """Wait for one frame and return its bytes without the length, or None at the end.

        Raises:
            FrameError: the length is negative or above the limit, or the stream ended in a frame.
            OSError: what `receive_into` raises.
        """
        have = self._rest
        shared = False
        while len(have) < 4:
            scratch = self._scratch
            count = self._receive_into(scratch)
            if count == 0:
                if len(have):
                    raise FrameError(f"peer closed after {len(have)} of 4 length bytes")
                return None
            if count >= 4 and not len(have):
                if _length(scratch)[0] + 4 == count <= self.max_frame_bytes:
                    # All that came is one frame, as most clients send them.
                    return memoryview(bytearray(scratch[4:count]))
                have, shared = scratch[:count], True
            else:
                have = memoryview(bytes(have) + bytes(scratch[:count]))
                self._rest = have
            self.in_frame = True
        size = _length(have)[0]
        if not 0 <= size <= self.max_frame_bytes:
            raise FrameError(
                f"frame length {size} is not within 0 to {self.max_frame_bytes}", bytes(have[:4])
            )
        end = 4 + size
        if len(have) >= end:
            frame = bytearray(have[4:end])
            if len(have) > end:
                rest = have[end:]
                self._rest = memoryview(bytes(rest)) if shared else rest
            else:
                self._rest = _NOTHING
                self.in_frame = False
            return memoryview(frame)
        self._rest = _NOTHING
        try:
            received = self._receive_rest(have[4:], size)
        except FrameError as error:
            error.start = size.to_bytes(4, "big")
            raise
        self.in_frame = False
        return memoryview(received)

    def _receive_rest(self, start: memoryview, size: int) -> bytearray | mmap.mmap:
        charge = self.charge if size > _FIRST_BUFFER_BYTES else None
        if charge is not None:
            # Other readers may use the scratch meanwhile.
            start = memoryview(bytes(start))
            charge(len(start))
        if size > _MAPPED_BYTES:
            return self._receive_mapped(start, size, charge)
        filled = len(start)
        frame = bytearray(min(size, max(self._trusted, filled)))
        frame[:filled] = start
        while True:
            room = len(frame)
            with memoryview(frame) as view:
                self._fill(view, filled, size, charge)
            filled = room
            if room == size:
                break
            frame.extend(bytes(min(size, room * _GROWTH) - room))
        if size > self._trusted:
            self._trusted = size
        return frame

    def _receive_mapped(
        self, start: memoryview, size: int, charge: Callable[[int], object] | None
    ) -> mmap.mmap:
        frame = mmap.mmap(-1, size)
        filled = len(start)
        frame[:filled] = bytes(start)
        with memoryview(frame) as view:
            self._fill(view, filled, size, charge)
        return frame

    def _fill(
        self, view: memoryview, filled: int, size: int, charge: Callable[[int], object] | None
    ) -> None:
        """Receive what a buffer has room for; `size` is that of the frame, for the error."""
        while filled < len(view):
            with view[filled : filled + _READ_BYTES] as target:
                count = self._receive_into(target)
            if count == 0:
                raise FrameError(f"peer closed after {filled} of {size} frame bytes")
            filled += count
            if charge is not None:
                charge(count)
