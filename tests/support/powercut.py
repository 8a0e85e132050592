"""A file system that loses bytes and names without an fsync at a power cut.

Every call works on a real directory; a model holds the stable state: the bytes of a file at its
last fsync, the names of a directory at its last fsync. At the cut a new directory is created from
the model. Any part of the unstable bytes and names may survive: each page of a file is the old one,
the new one or zeros, and any subset of the changed names is kept.
"""

import errno
import functools
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from zkbroker.log import FileSystem

PAGE = 512


class FileModel:
    """The stable and the current bytes of a file."""

    def __init__(self) -> None:
        self.stable = b""
        self.last = b""
        self.fds: set[int] = set()

    def current(self) -> bytes:
        """Return its current bytes."""
        for fd in self.fds:
            self.last = os.pread(fd, os.fstat(fd).st_size, 0)
            break
        return self.last


class DirectoryModel:
    """The stable and the current names of a directory, and the changes between them."""

    def __init__(self) -> None:
        self.stable: dict[str, FileModel | DirectoryModel] = {}
        self.current: dict[str, FileModel | DirectoryModel] = {}
        self.pending: list[tuple[str, str, FileModel | DirectoryModel | None]] = []

    def add(self, name: str, node: "FileModel | DirectoryModel") -> None:
        self.current[name] = node
        self.pending.append(("add", name, node))

    def move(self, source: str, target: str) -> None:
        self.current[target] = self.current.pop(source)
        self.pending.append((source, target, None))

    def remove(self, name: str) -> None:
        del self.current[name]
        self.pending.append(("remove", name, None))

    def sync(self) -> None:
        self.stable = dict(self.current)
        self.pending.clear()


F = TypeVar("F", bound=Callable[..., Any])


def _one_at_a_time(call: F) -> F:
    """Lock a call, so that the cut is one moment for all threads."""

    @functools.wraps(call)
    def locked(self: "PowerCutFileSystem", *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            return call(self, *args, **kwargs)

    return cast("F", locked)


class PowerCutFileSystem(FileSystem):
    """Cuts the power at the change numbered `cut_at`; every later call fails."""

    def __init__(self, root: Path, target: Path, seed: int) -> None:
        self.root = root
        self.target = target
        self.chosen = random.Random(seed)
        self.model = DirectoryModel()
        self.cut_at: int | None = None
        self.changes = 0
        self.dead = False
        self.lock = threading.RLock()
        self._open: dict[int, FileModel] = {}
        self._files: list[FileModel] = []

    def _step(self) -> None:
        self.changes += 1
        if not self.dead and self.cut_at is not None and self.changes >= self.cut_at:
            self.cut()
        if self.dead:
            raise OSError(errno.EIO, "the power is off")

    def adopt(self) -> None:
        """Take the present content of the root as stable."""
        self._adopt(self.model, self.root)

    def _adopt(self, directory: DirectoryModel, path: Path) -> None:
        for child in path.iterdir():
            node: FileModel | DirectoryModel
            if child.is_dir():
                node = DirectoryModel()
                self._adopt(node, child)
            else:
                node = FileModel()
                node.stable = node.last = child.read_bytes()
                self._files.append(node)
            directory.current[child.name] = node
        directory.sync()

    @_one_at_a_time
    def write_back(self) -> None:
        """Make everything stable, as the operating system does eventually."""
        for file in self._files:
            file.stable = file.current()
        self._write_back(self.model)

    def _write_back(self, directory: DirectoryModel) -> None:
        directory.sync()
        for node in directory.current.values():
            if isinstance(node, DirectoryModel):
                self._write_back(node)

    @_one_at_a_time
    def close_open(self) -> None:
        """Close the open files, as the end of a process does."""
        for fd, file in list(self._open.items()):
            file.current()
            os.close(fd)
        self._open.clear()

    def cut(self) -> None:
        """Cut the power, and create in `target` a state that may remain."""
        self.dead = True
        self._leave(self.model, self.target)

    def _leave(self, directory: DirectoryModel, path: Path) -> None:
        path.mkdir()
        found = dict(directory.stable)
        share = self.chosen.choice([0.0, 0.5, 1.0])
        for kind, name, node in directory.pending:
            if self.chosen.random() >= share:
                continue
            if kind == "add" and node is not None:
                found[name] = node
            elif kind == "remove":
                found.pop(name, None)
            elif kind in found:
                found[name] = found.pop(kind)
        for name, node in found.items():
            if isinstance(node, DirectoryModel):
                self._leave(node, path / name)
            else:
                (path / name).write_bytes(self._survived(node))

    def _survived(self, file: FileModel) -> bytes:
        old, new = file.stable, file.current()
        share = self.chosen.choice([0.0, 0.5, 1.0])
        size = self.chosen.choice(
            [len(old), len(new), self.chosen.randint(*sorted((len(old), len(new))))]
        )
        result = bytearray(size)
        for start in range(0, size, PAGE):
            source = new if self.chosen.random() < share else old
            page = source[start : min(start + PAGE, size)]
            result[start : start + len(page)] = page
        return bytes(result)

    def _directory(self, path: Path) -> DirectoryModel:
        node = self.model
        for part in path.relative_to(self.root).parts:
            child = node.current[part]
            assert isinstance(child, DirectoryModel)
            node = child
        return node

    @_one_at_a_time
    def open(self, path: Path, flags: int) -> int:
        if self.dead:
            raise OSError(errno.EIO, "the power is off")
        directory = self._directory(path.parent)
        if not path.exists() and flags & os.O_CREAT:
            self._step()
            self._files.append(FileModel())
            directory.add(path.name, self._files[-1])
        fd = super().open(path, flags)
        file = directory.current[path.name]
        assert isinstance(file, FileModel)
        self._open[fd] = file
        # The model's own descriptor, for those of writers are not always readable.
        if not file.fds:
            file.fds.add(os.open(path, os.O_RDONLY))
        return fd

    @_one_at_a_time
    def close(self, fd: int) -> None:
        self._open.pop(fd, None)
        super().close(fd)

    @_one_at_a_time
    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        self._step()
        return super().write(fd, data)

    @_one_at_a_time
    def pwrite(self, fd: int, data: bytes, position: int) -> int:
        self._step()
        return super().pwrite(fd, data, position)

    @_one_at_a_time
    def truncate(self, fd: int, size: int) -> None:
        self._step()
        super().truncate(fd, size)

    @_one_at_a_time
    def fsync(self, fd: int) -> None:
        self._step()
        file = self._open[fd]
        file.stable = file.current()

    @_one_at_a_time
    def fsync_dir(self, path: Path) -> None:
        self._step()
        self._directory(path).sync()

    @_one_at_a_time
    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)
        self._directory(source.parent).move(source.name, target.name)

    @_one_at_a_time
    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)
        self._directory(path.parent).remove(path.name)

    @_one_at_a_time
    def mkdir(self, path: Path) -> None:
        if path == self.root or path.exists():
            return
        self._step()
        super().mkdir(path)
        self._directory(path.parent).add(path.name, DirectoryModel())

    @_one_at_a_time
    def rmdir(self, path: Path) -> None:
        self._step()
        super().rmdir(path)
        self._directory(path.parent).remove(path.name)

    def close_all(self) -> None:
        """Close the model's own descriptors, also of deleted files."""
        for file in self._files:
            for fd in file.fds:
                os.close(fd)
            file.fds.clear()
