"""What every file system of a lake does, checked below a root directory of it."""

import pytest

from spark_loader.storage.files import LakeFileSystem, LockedError


def check_publish(files: LakeFileSystem, root: str) -> None:
    path = f"{root}/state/one.json"
    assert files.publish(path, b"first")
    assert not files.publish(path, b"second")
    assert files.read(path) == b"first"
    files.replace(path, b"third")
    assert (files.read(path), files.size(path)) == (b"third", 5)
    assert (files.names(root), files.names(f"{root}/state")) == (["state"], ["one.json"])


def check_rename(files: LakeFileSystem, root: str) -> None:
    source, target = f"{root}/a", f"{root}/x/b"
    files.publish(source, b"1")
    for _ in range(2):
        files.rename(source, target)
    assert (files.read(target), files.size(source)) == (b"1", None)
    with pytest.raises(FileNotFoundError):
        files.rename(source, f"{root}/c")


def check_missing(files: LakeFileSystem, root: str) -> None:
    path = f"{root}/missing"
    assert (files.size(path), files.names(path), [*files.walk(path)]) == (None, [], [])
    files.delete(path)
    with pytest.raises(FileNotFoundError, match="missing"):
        files.read(path)


def check_lock(files: LakeFileSystem, root: str) -> None:
    path = f"{root}/lock"
    with (
        files.lock(path, "the first holder"),
        pytest.raises(LockedError, match="held by the first holder"),
        files.lock(path, "the second"),
    ):
        pass
    with files.lock(path, "the third"):
        assert files.read(path).splitlines()[0] == b"the third"
