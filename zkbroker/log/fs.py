"""The file system calls of the log, in one replaceable place.

Invariant: every byte that must survive a power cut goes through a `FileSystem`: it is written by
`write` or `pwrite`, and counts as stable only after `fsync` of its file and, for a name that was
created, renamed or removed, after `fsync_dir` of the directory. Tests replace the class to simulate
power cuts and full or failing disks. Only the owner can read the files created here.
"""

import ctypes
import errno
import os
from pathlib import Path

from zkbroker.private_files import PRIVATE_DIRECTORY, PRIVATE_FILE

# Python's own `posix_fallocate` would extend the file.
_KEEP_SIZE = 1
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class FileSystem:
    """The operating system's calls; every method raises OSError as they do."""

    def open(self, path: Path, flags: int) -> int:
        """Open a file and return its descriptor; only the owner can read a new file."""
        return os.open(path, flags | os.O_CLOEXEC, PRIVATE_FILE)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, data: bytes | bytearray | memoryview) -> int:
        """Write at the descriptor's end (it is opened with O_APPEND); may write less."""
        return os.write(fd, data)

    def pwrite(self, fd: int, data: bytes, position: int) -> int:
        return os.pwrite(fd, data, position)

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def reserve(self, fd: int, size: int) -> None:
        """Reserve disk space for a file up to a size (bytes); the file's own size stays.

        `truncate` to its size releases the unused space.
        """
        if _fallocate(fd, _KEEP_SIZE, 0, size):
            number = ctypes.get_errno()
            if number not in (errno.EOPNOTSUPP, errno.ENOSYS):
                raise OSError(number, os.strerror(number))

    def set_mtime(self, path: Path, mtime_ns: int) -> None:
        """Set a file's time of last change (ns since 1970)."""
        os.utime(path, ns=(mtime_ns, mtime_ns))

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def fsync_dir(self, path: Path) -> None:
        """Make the names in a directory stable."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or directory; an existing file of the target name is replaced."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def mkdir(self, path: Path) -> None:
        """Create a directory that only the owner can read; an existing one is left as it is."""
        path.mkdir(PRIVATE_DIRECTORY, exist_ok=True)

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def write_file(
        self, path: Path, data: bytes, *, durable: bool = True, whole: bool = True
    ) -> None:
        """Replace a small file as a whole: a reader sees the old bytes or the new.

        Args:
            path: the file; `<name>.tmp` beside it is used meanwhile.
            data: its whole content.
            durable: whether the new content survives a power cut from now on; if not, only after
                the next `fsync_dir` of its directory.
            whole: whether a power cut leaves the old content or the new one (`durable` implies
                this); if not, the file may be torn, which its reader must notice.
        """
        temporary = path.with_name(path.name + ".tmp")
        # An existing temporary file is replaced, and a link is never followed.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW
        try:
            fd = self.open(temporary, flags)
        except FileExistsError:
            self.unlink(temporary)
            fd = self.open(temporary, flags)
        try:
            self.write_all(fd, data)
            if durable or whole:
                self.fsync(fd)
        finally:
            self.close(fd)
        self.rename(temporary, path)
        if durable:
            self.fsync_dir(path.parent)

    def write_all(self, fd: int, data: bytes | bytearray | memoryview) -> None:
        """Write every byte of `data`, in as many calls as the operating system needs."""
        written = self.write(fd, data)
        if written == len(data):
            return
        rest = memoryview(data)[written:]
        while rest:
            rest = rest[self.write(fd, rest) :]

    def remove_tree(self, path: Path) -> None:
        """Remove a directory with all files in it; a missing one is no error.

        A link is removed, and its target stays.
        """
        if path.is_symlink():
            self.unlink(path)
            return
        try:
            children = list(path.iterdir())
        except FileNotFoundError:
            return
        for child in children:
            if child.is_dir() and not child.is_symlink():
                self.remove_tree(child)
            else:
                self.unlink(child)
        self.rmdir(path)
