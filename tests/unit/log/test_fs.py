import os

from tests.support.logs import HookedFileSystem, append, reopened_log, started_log
from zkbroker.log.fs import FileSystem


def test_symlink_at_temporary_file_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    target = tmp_path / "meta.properties"
    (tmp_path / "meta.properties.tmp").symlink_to(precious)
    for durable in (True, False):
        FileSystem().write_file(target, b"new", durable=durable, whole=durable)
        assert target.read_bytes() == b"new"
        assert not target.is_symlink()
        (tmp_path / "meta.properties.tmp").symlink_to(precious)
    assert precious.read_text() == "keep me"


def test_leftover_temporary_file_is_replaced(tmp_path):
    (tmp_path / "a.tmp").write_bytes(b"incomplete")
    FileSystem().write_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_preallocated_segment_releases_space_at_roll(tmp_path):
    reserved = []
    fs = HookedFileSystem(reserve=lambda fd, size: reserved.append(size))
    with started_log(tmp_path, fs=fs, segment_bytes=1 << 20, preallocate=True) as log:
        assert reserved == [1 << 20]
        path = log.segments[0].path(".log")
        append(log, 3)
        size = log.size_bytes
        assert path.stat().st_size == size
        assert path.stat().st_blocks * 512 >= 1 << 20
        log.roll()
        assert reserved == [1 << 20] * 2
        assert path.stat().st_blocks * 512 < 1 << 20
        assert os.path.getsize(path) == size
    reserved.clear()
    with reopened_log(tmp_path, fs=fs, segment_bytes=1 << 20) as log:
        assert log.log_end_offset == 3
        assert reserved == []


def test_removal_of_linked_partition_removes_only_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "0.log").write_bytes(b"data")
    link = tmp_path / "t-0"
    link.symlink_to(tmp_path / "elsewhere")
    FileSystem().remove_tree(link)
    assert not link.is_symlink()
    assert (tmp_path / "elsewhere" / "0.log").read_bytes() == b"data"
