"""One broker per data directory.

Invariant: a `DirectoryLock` excludes other processes, and other locks of this process. It is the
same POSIX lock on `.lock` that the genuine broker takes, so that the two never share a directory;
the operating system drops it when the process dies.
"""

import errno
import fcntl
import os
from pathlib import Path

from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.private_files import PRIVATE_FILE

# POSIX locks belong to the process, so a second lock in the same process would be granted.
_held: set[Path] = set()


class DirectoryLock:
    """The lock of a data directory, acquired by the constructor and released by `release`.

    Raises:
        StorageError: another process has it.
        OSError: the file cannot be opened or locked.
    """

    def __init__(self, directory: Path) -> None:
        self._path = (directory / names.LOCK).resolve()
        if self._path in _held:
            raise StorageError(f"data directory {directory} is already in use by this process")
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise StorageError(
                f"data directory {directory} is in use by another broker: stop it, or give this "
                "one another log.dirs"
            ) from error
        _held.add(self._path)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._path in _held:
            _held.discard(self._path)
            os.close(self._fd)
