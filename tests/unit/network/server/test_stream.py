import os
import socket
import time

import gevent
import pytest

from zkbroker.errors import StorageError
from zkbroker.fileslice import FileSlice
from zkbroker.network.server import stream as stream_module
from zkbroker.network.server.stream import SENDFILE_BYTES, HubStream, in_page_cache, read_ahead

SIZE = 1 << 20


def test_dropped_pages_are_detected_and_read_ahead(tmp_path):
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(SIZE))
    fd = os.open(path, os.O_RDONLY)
    try:
        assert in_page_cache(fd, 0, SIZE)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, SIZE, os.POSIX_FADV_DONTNEED)
        if in_page_cache(fd, 0, SIZE):
            pytest.skip("this file system keeps everything in memory")
        read_ahead(fd, 0, SIZE)
        assert in_page_cache(fd, 0, SIZE)
    finally:
        os.close(fd)


def test_other_tasks_run_between_slices_of_a_fast_reader(tmp_path, monkeypatch):
    path = tmp_path / "segment"
    path.write_bytes(bytes(20 * SENDFILE_BYTES))
    sent = []

    def sendfile(out, fd, position, size):
        # A peer that accepts everything at once, and a slow disk.
        sent.append(size)
        time.sleep(0.001)
        return size

    monkeypatch.setattr(os, "sendfile", sendfile)
    ours, peer = socket.socketpair()
    stream = HubStream(ours, gevent.get_hub())
    seen = []

    def other():
        while True:
            seen.append(len(sent))
            gevent.sleep(0)

    task = gevent.spawn(other)
    fd = os.open(path, os.O_RDONLY)
    try:
        stream.send([FileSlice(fd, 0, 20 * SENDFILE_BYTES, lambda: None)])
    finally:
        task.kill()
        stream.close()
        peer.close()
        os.close(fd)
    assert sent == [SENDFILE_BYTES] * 20
    assert any(0 < count < 20 for count in seen)


class RecordedStream:
    """A stream over a socket pair and a file, which records its sends and calls of sendfile."""

    def __init__(self, monkeypatch, path, size):
        path.write_bytes(bytes(number % 251 for number in range(size)))
        self.data = path.read_bytes()
        self.fd = os.open(path, os.O_RDONLY)
        self.files = []
        self.sends = []
        ours, self.peer = socket.socketpair()
        self.stream = HubStream(ours, gevent.get_hub())
        sendfile = os.sendfile
        send_all = HubStream._send_all

        def counted(out, fd, position, count):
            self.files.append(count)
            return sendfile(out, fd, position, count)

        def sent(stream, data, flags):
            self.sends.append(len(data))
            send_all(stream, data, flags)

        monkeypatch.setattr(os, "sendfile", counted)
        monkeypatch.setattr(HubStream, "_send_all", sent)

    def piece(self, position, size):
        return FileSlice(self.fd, position, size)

    def received(self, count):
        found = b""
        while len(found) < count:
            found += self.peer.recv(count - len(found))
        return found

    def close(self):
        self.stream.close()
        self.peer.close()
        os.close(self.fd)


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Make a `RecordedStream` over a file of a size; it is closed after the test."""
    made = []

    def make(size):
        made.append(RecordedStream(monkeypatch, tmp_path / "segment", size))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_small_slices_are_sent_with_their_neighbours(record):
    recorded = record(100_000)
    recorded.stream.send([b"a" * 10, recorded.piece(5, 100), b"b", recorded.piece(0, 50_000), b"c"])
    data = recorded.data
    expected = b"a" * 10 + data[5:105] + b"b" + data[:50_000] + b"c"
    assert recorded.received(len(expected)) == expected
    assert (recorded.sends, recorded.files) == ([111, 1], [50_000])


def test_gathering_of_small_slices_is_bounded(record):
    recorded = record(8000)
    reader = gevent.get_hub().threadpool.spawn(recorded.received, 40 * 8000)
    recorded.stream.send([recorded.piece(0, 8000) for _ in range(40)])
    assert reader.get() == recorded.data * 40
    assert max(recorded.sends) < 80_000


def test_uncached_small_slice_is_sent_from_its_file(record, monkeypatch):
    recorded = record(8000)

    def away(fd, buffers, position, flags=0):
        raise BlockingIOError

    monkeypatch.setattr(os, "preadv", away)
    recorded.stream.send([b"head", recorded.piece(0, 500)])
    assert recorded.received(504) == b"head" + recorded.data[:500]
    assert recorded.files == [500]


def test_small_slice_beyond_the_file_is_an_error(record):
    recorded = record(100)
    with pytest.raises(StorageError, match="50 bytes before"):
        recorded.stream.send([recorded.piece(50, 100)])
    assert stream_module._copied(recorded.piece(50, 100)) is None
