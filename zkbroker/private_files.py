"""Files and directories that only their owner can read.

Invariant: what is made here never was readable by others, not for a moment: the rights are given
with the call that makes it, whatever the umask of the process is. What exists already keeps its
rights, and a warning says so.
"""

import logging
import os
import stat
from pathlib import Path
from typing import BinaryIO

logger = logging.getLogger(__name__)

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700
PRIVATE_UMASK = 0o077


def make_private_directory(path: Path) -> None:
    """Make a directory, and what is missing above it, for the owner alone.

    Raises:
        OSError: it cannot be made, or a file has its name.
    """
    if path.is_dir():
        return
    if not path.parent.exists():
        make_private_directory(path.parent)
    path.mkdir(PRIVATE_DIRECTORY, exist_ok=True)


def open_private(path: Path, flags: int = 0) -> BinaryIO:
    """Open a file to write; a new one is the owner's alone.

    Args:
        path: the file.
        flags: `os.O_TRUNC`, `os.O_APPEND` or `os.O_EXCL`, beside those that write and create.

    Raises:
        OSError: it cannot be opened.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, PRIVATE_FILE)
    return os.fdopen(fd, "wb")


def write_private(path: Path, data: bytes, flags: int = os.O_TRUNC) -> None:
    """Write a whole file; a new one is the owner's alone.

    Raises:
        OSError: it cannot be written.
    """
    with open_private(path, flags) as file:
        file.write(data)


def warn_of_wide_rights(path: Path) -> None:
    """Warn of a directory, made by another program, that others than its owner have rights on.

    Its rights stay: backups or monitoring may need them.

    Raises:
        OSError: it cannot be looked at.
    """
    mode = path.stat().st_mode
    if mode & PRIVATE_UMASK:
        logger.warning(
            "directory open to other users path=%s rights=%s: chmod go-rwx %s closes it",
            path,
            stat.filemode(mode),
            path,
        )
