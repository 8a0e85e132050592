"""Recovery of a view: its map decides, whatever files a crash left."""

import shutil

import pytest

from tests.support.logs import UnsyncedFileSystem
from tests.support.views07 import shown
from zkbroker.errors import StorageError
from zkbroker.log.legacy07.offset_map import HEAD_BYTES, map_files
from zkbroker.log.legacy07.view_recovery import open_view
from zkbroker.records import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper

WRAPPER = build_wrapper(Codec.SNAPPY, build_message(b"a") + build_message(b"b"))
FS = UnsyncedFileSystem()


@pytest.fixture
def found(tmp_path):
    """A view of three files, with rendered and sent bytes."""
    with shown(tmp_path, file_bytes=150) as made:
        for number in range(4):
            made.modern(b"%d" % number * 30, codec=Codec.GZIP)
            made.old(WRAPPER + build_message(b"plain %d" % number, magic=number % 2))
        made.show()
        assert len(made.view.files) >= 3
        yield made


def copy(found, target):
    shutil.copytree(found.view.directory, target)
    return target


def contents(opened):
    return b"".join(each.path.read_bytes() for each in opened.segments)


def test_missing_or_damaged_files_are_rebuilt_byte_for_byte(found, tmp_path):
    whole = found.bytes()
    for number, path in enumerate(found.view.files):
        lost = copy(found, tmp_path / f"lost-{number}")
        (lost / path.name).unlink()
        opened = open_view(FS, lost, found.master, clean=True)
        assert contents(opened) == whole
        assert opened.place == found.view._place
    last = found.view.files[-1].name
    for at in range((found.view.files[-1]).stat().st_size):
        torn = copy(found, tmp_path / f"torn-{at}")
        data = bytearray((torn / last).read_bytes())
        data[at] ^= 0x20
        (torn / last).write_bytes(data[: at + 1])
        assert contents(open_view(FS, torn, found.master, clean=False)) == whole


def test_bytes_beyond_the_map_are_truncated_after_crash(found, tmp_path):
    whole = found.bytes()
    longer = copy(found, tmp_path / "longer")
    last = longer / found.view.files[-1].name
    last.write_bytes(last.read_bytes() + build_message(b"beyond the map"))
    assert contents(open_view(FS, longer, found.master, clean=False)) == whole


def test_torn_map_is_rebuilt_from_master(found, tmp_path):
    whole = found.bytes()
    name = found.view.files[-1].with_suffix(".map").name
    size = (found.view.directory / name).stat().st_size
    for kept in range(HEAD_BYTES, size, 4):  # no divisor of a record's length
        for tail in (b"", bytes(size - kept), b"\xa5" * (size - kept)):
            folder = copy(found, tmp_path / f"{kept}-{tail[:1].hex()}")
            data = (folder / name).read_bytes()
            (folder / name).write_bytes(data[:kept] + tail)
            opened = open_view(FS, folder, found.master, clean=not kept % 8)
            assert contents(opened) == whole
            assert opened.place == found.view._place
            again = open_view(FS, folder, None, clean=True)
            assert (contents(again), again.place) == (whole, opened.place)
            shutil.rmtree(folder)


def test_bytes_behind_the_map_are_dropped_without_master(found, tmp_path):
    whole = found.bytes()
    short = copy(found, tmp_path / "short")
    last = max(short.glob("*.map"))
    last.write_bytes(last.read_bytes()[:-3])
    # After a clean stop no byte may be behind the map.
    with pytest.raises(StorageError, match="its map accounts for"):
        open_view(FS, short, None, clean=True)
    opened = open_view(FS, short, None, clean=False)
    assert whole.startswith(contents(opened))
    assert len(contents(opened)) < len(whole)
    assert opened.place.offset < found.view.next_offset


def test_foreign_append_after_clean_stop_is_refused(found, tmp_path):
    longer = copy(found, tmp_path / "longer")
    last = max(longer.glob("*.kafka"))
    last.write_bytes(last.read_bytes() + build_message(b"of a 0.7 broker"))
    with pytest.raises(StorageError, match="another program appended"):
        open_view(FS, longer, found.master, clean=True)


def test_missing_file_without_master_is_out_of_range(found, tmp_path):
    whole = found.bytes()
    short = copy(found, tmp_path / "short")
    files = sorted(short.glob("*.kafka"))
    files[0].unlink()
    opened = open_view(FS, short, None, clean=False)
    assert opened.segments[0].start == int(files[1].stem)
    assert contents(opened) == whole[int(files[1].stem) :]
    for path in short.glob("*.kafka"):
        path.unlink()
    opened = open_view(FS, short, None, clean=False)
    assert [(each.start, each.size) for each in opened.segments] == [(len(whole), 0)]
    assert opened.place == found.view._place


def test_last_file_without_map_is_refused(found, tmp_path):
    folder = copy(found, tmp_path / "folder")
    max(folder.glob("*.map")).unlink()
    with pytest.raises(StorageError, match="has no map"):
        open_view(FS, folder, found.master, clean=False)


def test_partly_created_or_deleted_files_are_removed(found, tmp_path):
    whole = found.bytes()
    half = copy(found, tmp_path / "half")
    first = min(half.glob("*.map"))
    first.unlink()
    opened = open_view(FS, half, found.master, clean=False)
    assert contents(opened) == whole[opened.segments[0].start :]
    assert opened.segments[0].start > 0
    torn = half / f"{len(whole):020d}.map"
    torn.write_bytes(b"zkb07")
    torn.with_suffix(".kafka").write_bytes(b"")
    again = open_view(FS, half, found.master, clean=False)
    assert again.place == opened.place
    assert not torn.exists()
    assert not torn.with_suffix(".kafka").exists()


def test_damaged_or_missing_map_between_others_is_refused(found, tmp_path):
    gap = copy(found, tmp_path / "gap")
    maps = sorted(gap.glob("*.map"))
    kept = maps[1].read_bytes()
    maps[1].unlink()
    with pytest.raises(StorageError, match="a file was lost or changed"):
        open_view(FS, gap, found.master, clean=True)
    maps[1].write_bytes(kept[:5])
    with pytest.raises(StorageError, match="is damaged: bring the file back"):
        open_view(FS, gap, found.master, clean=True)
    for garbage in (bytes(len(kept)), b"\xa5" * len(kept)):
        torn = copy(found, tmp_path / f"torn-{garbage[0]}")
        max(torn.glob("*.map")).write_bytes(garbage)
        for _ in range(2):
            with pytest.raises(StorageError, match="is damaged: bring the file back"):
                open_view(FS, torn, found.master, clean=False)
            max(torn.glob("*.kafka")).write_bytes(b"")


def test_folder_without_complete_map_is_not_a_view(tmp_path):
    folder = tmp_path / "t-0"
    folder.mkdir()
    assert not map_files(folder)
    (folder / f"{0:020d}.map").write_bytes(b"zkb")
    assert map_files(folder)
    assert open_view(FS, folder, None, clean=False) is None
    assert list(folder.iterdir()) == []
