import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.frame_client import frame
from tests.support.process import resident_bytes
from zkbroker.network.frames import FrameError, FrameReader


class SplitStream:
    """A stream that returns bytes in pieces of given sizes."""

    def __init__(self, data, sizes):
        self.data = data
        self.sizes = sizes
        self.largest_view = 0

    def receive_into(self, view):
        self.largest_view = max(self.largest_view, len(view))
        want = self.sizes.pop(0) if self.sizes else len(view)
        chunk = self.data[: min(want, len(view))]
        self.data = self.data[len(chunk) :]
        view[: len(chunk)] = chunk
        return len(chunk)


def framed(*bodies):
    return b"".join(map(frame, bodies))


@given(
    st.lists(st.binary(max_size=9000), max_size=8),
    st.lists(st.integers(1, 6000), max_size=40),
)
def test_frames_are_whole_however_the_stream_is_split(bodies, sizes):
    reader = FrameReader(SplitStream(framed(*bodies), sizes).receive_into, 10_000)
    got = []
    while (frame := reader.next_frame()) is not None:
        assert not frame.readonly
        got.append(frame)
    assert [bytes(frame) for frame in got] == bodies
    assert not reader.in_frame


def test_each_frame_has_its_own_buffer():
    reader = FrameReader(SplitStream(framed(b"aaaa", b"bbbb"), []).receive_into, 100)
    first, second = reader.next_frame(), reader.next_frame()
    assert first is not None
    assert second is not None
    first[0:4] = b"xxxx"
    assert bytes(second) == b"bbbb"


def test_memory_is_allocated_as_bytes_arrive():
    for announced, kept in ((3_000_000, 100_000), (200_000_000, 200_000)):
        stream = SplitStream(announced.to_bytes(4, "big") + bytes(1000), [])
        seen = []

        def receive_into(view):
            count = stream.receive_into(view)  # noqa: B023 - used in this turn
            seen.append(resident_bytes(os.getpid()))  # noqa: B023
            return count

        before = resident_bytes(os.getpid())
        with pytest.raises(FrameError, match="1000 of"):
            FrameReader(receive_into, 200_000_000).next_frame()
        assert max(seen) - before < kept + 4_000_000, announced


def test_only_received_bytes_of_large_frames_are_charged():
    charged = []
    bodies = [random.Random(7).randbytes(size) for size in (60_000, 70_000, 5_000_000)]
    reader = FrameReader(SplitStream(framed(*bodies), [10] * 30).receive_into, 6_000_000)
    reader.charge = charged.append
    assert [reader.next_frame() == body for body in bodies] == [True] * 3
    assert sum(charged) == 5_070_000
    assert max(charged) <= 1024 * 1024


def test_announced_bytes_are_not_charged():
    charged = []
    start = (100_000_000).to_bytes(4, "big") + bytes(1000)
    reader = FrameReader(SplitStream(start, []).receive_into, 200_000_000)
    reader.charge = charged.append
    with pytest.raises(FrameError, match="1000 of"):
        reader.next_frame()
    assert sum(charged) == 1000


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
def test_frame_length_out_of_bounds_is_refused(size):
    prefix = size.to_bytes(4, "big", signed=True)
    with pytest.raises(FrameError, match=f"frame length {size} ") as caught:
        FrameReader(SplitStream(prefix + b"x", []).receive_into, 100).next_frame()
    assert caught.value.start == prefix


def test_end_of_stream_is_an_error_only_within_a_frame():
    reader = FrameReader(SplitStream(framed(b"ok"), []).receive_into, 100)
    assert reader.next_frame() == b"ok"
    assert reader.next_frame() is None
    for cut in (1, 3, 5):
        reader = FrameReader(SplitStream(framed(b"okay")[:cut], []).receive_into, 100)
        with pytest.raises(FrameError, match="peer closed after"):
            reader.next_frame()


def test_in_frame_is_true_within_a_frame():
    states = []
    stream = SplitStream(framed(b"abcdef"), [2, 4, 2, 2])

    def receive_into(view):
        states.append(reader.in_frame)
        return stream.receive_into(view)

    reader = FrameReader(receive_into, 100)
    reader.next_frame()
    assert states[0] is False
    assert states[1:] == [True] * (len(states) - 1)
    assert not reader.in_frame
