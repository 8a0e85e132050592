import os
import socket
import time
from pathlib import Path

import gevent
import pytest

from zkbroker.fileslice import FileSlice
from zkbroker.network.server.stream import SENDFILE_BYTES, HubStream, _in_page_cache, _read_ahead

SIZE = 1 << 20


def test_pages_that_were_dropped_are_seen_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(os.urandom(SIZE))
    fd = os.open(path, os.O_RDONLY)
    try:
        assert _in_page_cache(fd, 0, SIZE)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, SIZE, os.POSIX_FADV_DONTNEED)
        if _in_page_cache(fd, 0, SIZE):
            pytest.skip("this file system keeps everything in memory")
        _read_ahead(fd, 0, SIZE)
        assert _in_page_cache(fd, 0, SIZE)
    finally:
        os.close(fd)


def test_a_reader_that_never_waits_lets_others_run_between_its_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "segment"
    path.write_bytes(bytes(20 * SENDFILE_BYTES))
    sent: list[int] = []

    def sendfile(out: int, fd: int, position: int, size: int) -> int:
        # A peer that takes all at once, and a disk that takes its time.
        sent.append(size)
        time.sleep(0.001)
        return size

    monkeypatch.setattr(os, "sendfile", sendfile)
    ours, peer = socket.socketpair()
    stream = HubStream(ours, gevent.get_hub())
    seen: list[int] = []

    def other() -> None:
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
