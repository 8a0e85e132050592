"""Local files: atomic writes, renames, listings and locks."""

import hashlib

import pytest

from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.files import (
    FileStatus,
    HashingFile,
    LocalFileSystem,
    file_name,
    join,
    sha256_of,
)
from tests.support.lake_files import check_lock, check_missing, check_publish, check_rename

FS = LocalFileSystem()


@pytest.mark.parametrize("check", [check_publish, check_rename, check_missing, check_lock])
def test_file_operations_are_atomic_or_repeatable(tmp_path, check):
    check(FS, str(tmp_path))


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


def test_walk_lists_all_files(tmp_path):
    FS.publish(str(tmp_path / "a" / "b"), b"12")
    FS.publish(str(tmp_path / "c"), b"1")
    assert sorted(FS.walk(str(tmp_path)), key=str) == [FileStatus("a/b", 2), FileStatus("c", 1)]


def test_data_file_names_sort_by_offset():
    names = [file_name(TopicPartition("t", 3), start, start + 1, "x", "txt") for start in (9, 10)]
    assert names == sorted(names)
    assert names[0] == "t+00003+00000000000000000009+00000000000000000010+x.txt"
    assert join("hdfs://n/lake/", "a", "b") == "hdfs://n/lake/a/b"


def test_names_of_new_directories_are_durable_before_the_file(tmp_path, synced):
    makers = {
        "create": lambda path: FS.create(path).commit(),
        "publish": lambda path: FS.publish(path, b"1"),
        "rename": lambda path: FS.rename(str(tmp_path / "old"), path),
        "lock": lambda path: FS.lock(path, "me").__enter__(),
    }
    FS.publish(str(tmp_path / "old"), b"1")
    for name, make in makers.items():
        synced.clear()
        make(str(tmp_path / name / "deep" / "file"))
        assert synced[:2] == [str(tmp_path), str(tmp_path / name)]


def test_name_that_is_there_already_is_durable_too(tmp_path, synced):
    """Who gave it may have been killed before it was."""
    FS.publish(str(tmp_path / "a" / "old"), b"1")
    FS.rename(str(tmp_path / "a" / "old"), str(tmp_path / "b" / "new"))
    synced.clear()
    FS.rename(str(tmp_path / "a" / "old"), str(tmp_path / "b" / "new"))
    assert synced == [str(tmp_path / "b")]
    synced.clear()
    assert not FS.publish(str(tmp_path / "b" / "new"), b"2")
    assert synced[-1] == str(tmp_path / "b")
