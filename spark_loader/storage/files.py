"""The few file operations a load needs, each of them atomic or repeatable.

    create(path) … commit()   a large file, durable from `commit` on; it is named in a commit later
    publish(path, bytes)      a small file, whole and durable, once: the first to publish wins
    rename(a, b)              repeatable: fine if it was done before
    table_log(output)         the log of the Delta table, for the library that writes it

Invariant: a reader never sees a half-written file under a name given to `publish` or `rename`.
Local directories are served here; any other Hadoop file system by `hadoop.py`. Objects travel to
the mappers, so they are picklable and hold nothing open. Paths use `/` everywhere.
"""

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.table_log import LocalTableLog, TableLog, sync_path
from zkbroker.types import Partition07


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file found below a directory; `path` is relative to it."""

    path: str
    size_bytes: int


class OutputFile(Protocol):
    """A file being written, under a name that is not read before `commit`."""

    def write(self, data: bytes) -> int: ...

    def commit(self) -> None:
        """Close the file and make its bytes durable."""

    def discard(self) -> None:
        """Remove the file; does nothing after `commit`."""


class LakeFileSystem(Protocol):
    """Where output and checkpoints live."""

    def create(self, path: str) -> OutputFile: ...

    def publish(self, path: str, data: bytes) -> bool:
        """Write a small file at once and durably; False when `path` exists already."""

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file at once and durably, over an older one."""

    def read(self, path: str) -> bytes:
        """Return a whole file; raise FileNotFoundError when there is none."""

    def opened(self, path: str) -> contextlib.AbstractContextManager[Path]:
        """Give a local path with the file's content; a copy goes away again."""

    def size(self, path: str) -> int | None:
        """Return the size in bytes, or None when there is no such file."""

    def rename(self, source: str, target: str) -> None:
        """Move a file; fine if it was moved before. FileNotFoundError if neither name exists."""

    def delete(self, path: str) -> None:
        """Remove a file if it exists."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory in order; none when it does not exist."""

    def walk(self, path: str) -> Iterator[FileStatus]:
        """Yield every file below a directory."""

    def lock(self, path: str, owner: str) -> contextlib.AbstractContextManager[None]:
        """Hold a lock that ends with this process; raise LockedError if another process has it."""

    def table_log(self, output: str) -> TableLog:
        """Return the log of the table in a directory."""


class LockedError(OSError):
    """Another process holds the lock."""


@dataclass(frozen=True, slots=True)
class LocalFileSystem:
    """Directories of this machine, or one that every worker mounts at the same place.

    Attributes:
        sync: whether files are flushed to the device; off only for output that is not kept.
    """

    sync: bool = True

    def create(self, path: str) -> "LocalOutput":
        return LocalOutput(Path(path), self)

    def sync_file(self, file: BinaryIO) -> None:
        """Make a file's bytes durable."""
        file.flush()
        if self.sync:
            os.fsync(file.fileno())

    def sync_directory(self, path: Path) -> None:
        """Make the names in a directory durable."""
        if self.sync:
            sync_path(path)

    def make_directory(self, path: Path) -> None:
        """Make a directory and those above it, with durable names."""
        missing = []
        while not path.exists():
            missing.append(path)
            path = path.parent
        for each in reversed(missing):
            each.mkdir(exist_ok=True)
            self.sync_directory(each.parent)

    def publish(self, path: str, data: bytes) -> bool:
        target = Path(path)
        temporary = self._write_beside(target, data)
        try:
            # A link fails when the name exists, a rename would replace it.
            os.link(temporary, target)
        except FileExistsError:
            published = False
        else:
            published = True
        finally:
            temporary.unlink()
        # Also an older name: the process that gave it may have been killed just then.
        self.sync_directory(target.parent)
        return published

    def replace(self, path: str, data: bytes) -> None:
        target = Path(path)
        self._write_beside(target, data).replace(target)
        self.sync_directory(target.parent)

    def _write_beside(self, target: Path, data: bytes) -> Path:
        self.make_directory(target.parent)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        with temporary.open("wb") as file:
            file.write(data)
            self.sync_file(file)
        return temporary

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[Path]:
        yield Path(path)

    def size(self, path: str) -> int | None:
        try:
            return Path(path).stat().st_size
        except FileNotFoundError:
            return None

    def rename(self, source: str, target: str) -> None:
        try:
            self.make_directory(Path(target).parent)
            Path(source).rename(target)
        except FileNotFoundError:
            if not Path(target).exists():
                raise
        self.sync_directory(Path(target).parent)

    def delete(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(entry.name for entry in Path(path).iterdir())
        except FileNotFoundError:
            return []

    def walk(self, path: str) -> Iterator[FileStatus]:
        # Strings, not Path objects: a lake has many files, and each load walks it.
        root = path.rstrip("/")
        for directory, _, names in os.walk(root):
            below = directory[len(root) + 1 :]
            for name in sorted(names):
                with contextlib.suppress(FileNotFoundError):
                    size = os.stat(f"{directory}/{name}").st_size  # noqa: PTH116
                    yield FileStatus(f"{below}/{name}" if below else name, size)

    @contextlib.contextmanager
    def lock(self, path: str, owner: str) -> Iterator[None]:
        import fcntl

        target = Path(path)
        self.make_directory(target.parent)
        # The kernel frees the lock however the process ends; the file stays.
        with target.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise LockedError(f"{path} is held by {file.read().strip() or 'another'}") from None
            file.truncate(0)
            file.write(owner)
            file.flush()
            yield

    def table_log(self, output: str) -> LocalTableLog:
        return LocalTableLog(output, sync=self.sync)


class LocalOutput:
    """A local file that is durable from `commit` on; see `OutputFile`."""

    def __init__(self, target: Path, filesystem: LocalFileSystem) -> None:
        filesystem.make_directory(target.parent)
        self._target = target
        self._fs = filesystem
        self._file: BinaryIO | None = target.open("wb")

    def write(self, data: bytes) -> int:
        assert self._file is not None
        return self._file.write(data)

    def commit(self) -> None:
        if self._file is None:
            return
        self._fs.sync_file(self._file)
        self._file.close()
        self._file = None
        self._fs.sync_directory(self._target.parent)

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._target.unlink(missing_ok=True)


class HashingFile:
    """A writable file for Arrow's writers that counts and hashes what passes through."""

    def __init__(self, output: OutputFile) -> None:
        self._output = output
        self._hash = hashlib.sha256()
        self.size_bytes = 0
        self.closed = False
        self.cancelled = False

    def write(self, data: bytes) -> int:
        view = memoryview(data)
        if self.cancelled:
            return view.nbytes
        self._hash.update(view)
        self._output.write(data)
        self.size_bytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size_bytes

    def cancel(self) -> None:
        """Drop later writes: Arrow's writers write a footer whenever they are closed."""
        self.cancelled = True

    def flush(self) -> None:
        """Nothing to do: the file is made durable once, when it is complete."""

    def close(self) -> None:
        """Arrow closes its sinks; the owner decides between commit and discard."""

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a local file as hexadecimal text."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def join(*parts: str) -> str:
    """Join parts of a path with `/`."""
    return "/".join(part.rstrip("/") if index == 0 else part for index, part in enumerate(parts))


def file_name(source: TopicPartition, start: int, until: int, token: str, suffix: str) -> str:
    """Return the name of a data file: topic, partition, from, until, attempt."""
    partition = source.partition
    number = str(partition) if isinstance(partition, Partition07) else f"{partition:05d}"
    return f"{source.topic}+{number}+{start:020d}+{until:020d}+{token}.{suffix}"
