import os

from tests.support.logs import TP, message_set, started
from zkbroker.log.fs import FileSystem


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(tmp_path):
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


def test_a_temporary_file_that_a_crash_left_is_replaced(tmp_path):
    (tmp_path / "a.tmp").write_bytes(b"half of the old")
    FileSystem().write_file(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"


class Reserving(FileSystem):
    def __init__(self):
        self.reserved = []

    def reserve(self, fd, size):
        self.reserved.append(size)
        super().reserve(fd, size)


def test_space_is_reserved_when_a_segment_is_begun_and_given_back_when_it_ends(tmp_path):
    fs = Reserving()
    with started(tmp_path, fs=fs, segment_bytes=1 << 20, preallocate=True) as manager:
        log = manager.get_or_create(TP)
        assert fs.reserved == [1 << 20]
        path = log.segments[0].path(".log")
        log.append_as_leader(message_set(3), leader_epoch=0)
        size = log.size_bytes
        assert path.stat().st_size == size
        assert path.stat().st_blocks * 512 >= 1 << 20
        log.roll()
        assert fs.reserved == [1 << 20] * 2
        assert path.stat().st_blocks * 512 < 1 << 20
        assert os.path.getsize(path) == size
    fs = Reserving()
    with started(tmp_path, fs=fs, segment_bytes=1 << 20) as manager:
        assert manager.get(TP).log_end_offset == 3
        assert fs.reserved == []


def test_of_a_partition_behind_a_link_only_the_link_is_removed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "0.log").write_bytes(b"data")
    link = tmp_path / "t-0"
    link.symlink_to(tmp_path / "elsewhere")
    FileSystem().remove_tree(link)
    assert not link.is_symlink()
    assert (tmp_path / "elsewhere" / "0.log").read_bytes() == b"data"
