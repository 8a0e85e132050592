import pytest

from tests.support.clocks import Clock
from tests.support.logs import EagerRuntime, start_log
from zkbroker.errors import CorruptMessage
from zkbroker.log.cleaner.reading import read_segment
from zkbroker.records import encode_message_set, iter_entries

SIZES = [10, 70_000, 100, 64 * 1024, 300_000, *[5_000] * 60, 1]


class EntryTaker:
    """Takes complete entries, as a pass of the cleaner does."""

    def __init__(self):
        self.offsets, self.largest = [], 0

    def take(self, block):
        self.largest = max(self.largest, len(block))
        entries = list(iter_entries(block, verify_crc=True))
        self.offsets += [each.base_offset for each in entries]
        return entries[-1].position + entries[-1].size if entries else 0


@pytest.fixture
def segment(tmp_path):
    manager, log = start_log(tmp_path, clock=Clock(), runtime=EagerRuntime())
    for size in SIZES:
        log.append_as_leader(
            bytearray(encode_message_set([(None, bytes(size), 0, ())])), leader_epoch=0
        )
    log.roll()
    yield log.segments[0]
    manager.close()


@pytest.mark.parametrize("io_bytes", [1, 1000, 100_000, 1 << 20])
def test_entries_of_every_size_are_taken_once_in_order(segment, io_bytes):
    taker, moved = EntryTaker(), []
    read_segment(segment, taker.take, io_bytes=io_bytes, on_bytes=moved.append)
    assert taker.offsets == list(range(len(SIZES)))
    assert sum(moved) >= segment.size
    if io_bytes == 1 << 20:
        # No step is larger than an entry needs, and other tasks may run between two steps.
        assert taker.largest <= 512 * 1024
        assert moved.count(0) > 5


def test_reading_stops_when_taker_is_done(segment):
    class OneEntryTaker(EntryTaker):
        def take(self, block):
            super().take(block)
            return -1 if self.offsets else 0

    taker = OneEntryTaker()
    read_segment(segment, taker.take, io_bytes=1 << 20, on_bytes=lambda _: None)
    assert taker.offsets == [0]


def test_segment_ending_within_an_entry_is_corrupt(segment):
    segment.size -= 10
    with pytest.raises(CorruptMessage, match="ends within the entry"):
        read_segment(segment, EntryTaker().take, io_bytes=1 << 20, on_bytes=lambda _: None)
