"""A log in memory, with power cuts, for tests of the offsets store."""

import threading
from dataclasses import dataclass

from zkbroker.errors import StorageError
from zkbroker.records import iter_entries, set_offsets
from zkbroker.runtime import unparked


@dataclass
class Appended:
    last_offset: int


class MemoryLog:
    """Segments of entries. `cut()` is a power cut: unflushed entries are lost."""

    def __init__(self):
        self.lock = threading.RLock()
        self.segments = [[]]  # of (base_offset, last_offset, bytes)
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.durable_offset = 0
        self.flush_every_append = False
        self.fail_with = None
        self.on_step = lambda what: None

    def append(self, data, *, now_ms=None, verification=None):
        self.on_step("append")
        if self.fail_with is not None:
            raise self.fail_with
        assert isinstance(data, bytearray)
        with self.lock:
            set_offsets(data, 0, self.log_end_offset)  # one magic-2 batch
            for info in iter_entries(data):
                entry = bytes(data[info.position : info.position + info.size])
                self.segments[-1].append((info.base_offset, info.last_offset, entry))
                self.log_end_offset = info.last_offset + 1
            return Appended(self.log_end_offset - 1)

    def wait_durable(self, last_offset, timeout_s=None, park=unparked):
        if self.fail_with is not None:
            raise StorageError("disk failed")
        if self.flush_every_append:
            self.flush()

    def read_bytes(self, offset, max_bytes):
        data = b""
        for segment in self.segments:
            for _, last, entry in segment:
                if last >= offset:
                    if data and len(data) + len(entry) > max_bytes:
                        return data
                    data += entry
        return data

    def begin_verification(self, producer_id, producer_epoch):
        return self

    def flush(self):
        self.on_step("flush")
        self.durable_offset = self.log_end_offset

    def cut(self):
        """Drop unflushed entries."""
        kept = [
            [entry for entry in segment if entry[1] < self.durable_offset]
            for segment in self.segments
        ]
        self.segments = [segment for segment in kept if segment] or [[]]
        self.log_end_offset = max(self.durable_offset, self.log_start_offset)


class ParkingLog(MemoryLog):
    """A log whose waits for durability park."""

    def wait_durable(self, last_offset, timeout_s=None, park=unparked):
        with park(lambda: None):
            pass
