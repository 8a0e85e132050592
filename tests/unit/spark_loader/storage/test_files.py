"""Local files: atomic writes, renames, listings and locks."""

import hashlib

import pytest

from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.files import (
    FileStatus,
    HashingFile,
    LocalFileSystem,
    LockedError,
    file_name,
    join,
    sha256_of,
)

FS = LocalFileSystem()


def test_first_publish_wins(tmp_path):
    path = str(tmp_path / "a" / "b.json")
    assert FS.publish(path, b"one")
    assert not FS.publish(path, b"two")
    assert FS.read(path) == b"one"
    FS.replace(path, b"three")
    assert FS.read(path) == b"three"
    assert FS.names(str(tmp_path / "a")) == ["b.json"]


def test_written_file_is_hashed_and_discarded_file_removed(tmp_path):
    path = tmp_path / "deep" / "file"
    output = FS.create(str(path))
    sink = HashingFile(output)
    sink.write(b"ab")
    sink.write(memoryview(b"c"))
    sink.cancel()
    sink.write(b"a footer of Arrow's")
    output.commit()
    output.discard()
    assert path.read_bytes() == b"abc"
    assert (sink.size_bytes, sink.tell()) == (3, 3)
    assert sink.sha256 == hashlib.sha256(b"abc").hexdigest() == sha256_of(path)
    dropped = FS.create(str(tmp_path / "dropped"))
    dropped.write(b"x")
    dropped.discard()
    assert not (tmp_path / "dropped").exists()


def test_rename_is_repeatable(tmp_path):
    source, target = str(tmp_path / "a"), str(tmp_path / "x" / "b")
    FS.publish(source, b"1")
    FS.rename(source, target)
    FS.rename(source, target)
    assert FS.read(target) == b"1"
    with pytest.raises(FileNotFoundError):
        FS.rename(source, str(tmp_path / "c"))


def test_missing_path_is_handled(tmp_path):
    gone = str(tmp_path / "gone")
    assert FS.size(gone) is None
    assert FS.names(gone) == []
    FS.delete(gone)
    assert list(FS.walk(gone)) == []


def test_walk_lists_all_files(tmp_path):
    FS.publish(str(tmp_path / "a" / "b"), b"12")
    FS.publish(str(tmp_path / "c"), b"1")
    assert sorted(FS.walk(str(tmp_path)), key=str) == [FileStatus("a/b", 2), FileStatus("c", 1)]


def test_lock_is_exclusive_and_names_holder(tmp_path):
    path = str(tmp_path / "lock")
    with (
        FS.lock(path, "the first"),
        pytest.raises(LockedError, match="the first"),
        FS.lock(path, "the second"),
    ):
        pass
    with FS.lock(path, "the third"):
        assert FS.read(path) == b"the third"


def test_data_file_names_sort_by_offset():
    names = [file_name(TopicPartition("t", 3), start, start + 1, "x", "txt") for start in (9, 10)]
    assert names == sorted(names)
    assert names[0] == "t+00003+00000000000000000009+00000000000000000010+x.txt"
    assert join("hdfs://n/lake/", "a", "b") == "hdfs://n/lake/a/b"
