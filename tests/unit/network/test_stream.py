import os
from pathlib import Path

import pytest

from zkbroker.network.stream import _in_page_cache, _read_ahead

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
