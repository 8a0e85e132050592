"""What the logs of one data directory share, and the directory's health.

Invariant: the first error of the disk takes the directory offline for good: what was written since
the last successful fsync may be lost, and an fsync that failed once and then succeeds has saved
nothing. The other directories go on.
"""

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from zkbroker.errors import StorageError
from zkbroker.log.fs import FileSystem
from zkbroker.log.open_files import OpenFiles
from zkbroker.measures import Histogram
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class LogContext:
    """A data directory as its logs see it.

    Args:
        root: the data directory.
        runtime: concurrency.
        fs: the file system.
        now_ms: the clock.
        open_files: files of segments that are only read.
        on_offline: called once, when the directory fails.
        save_start_offsets: makes the log start offsets of the directory stable.
    """

    root: Path
    runtime: Runtime
    fs: FileSystem
    now_ms: Callable[[], int]
    open_files: OpenFiles
    on_offline: Callable[["LogContext"], None] = lambda _: None
    save_start_offsets: Callable[["LogContext"], None] = lambda _: None
    doomed: list[tuple[int, Path]] = field(default_factory=list, init=False)
    """Files and directories to remove, with the time in ms from which they may be."""
    flush_times: Histogram = field(default_factory=Histogram, init=False)
    """How long the flushes of its logs took."""
    offline: str | None = field(default=None, init=False)
    """Why the directory cannot be used, None when it can."""

    def fail(self, error: OSError) -> StorageError:
        """Take the directory offline and return the error to raise.

        A process that is out of file descriptors, or a single file that somebody took away, says
        nothing of the disk: the call fails, and the directory stays.
        """
        harmless = error.errno in (errno.EMFILE, errno.ENFILE)
        if harmless or (error.errno == errno.ENOENT and self.root.is_dir()):
            return self.error(str(error))
        if self.offline is None:
            self.offline = f"{error.strerror or error} ({error.filename or self.root})"
            logger.error("data directory offline path=%s reason=%s", self.root, self.offline)
            self.on_offline(self)
        return self.error(self.offline)

    @contextmanager
    def storage(self) -> Iterator[None]:
        """Turn an OSError of the block into the StorageError that `fail` makes of it."""
        try:
            yield
        except OSError as error:
            raise self.fail(error) from error

    def error(self, reason: str) -> StorageError:
        """Return an error that names the directory."""
        return StorageError(f"data directory {self.root} cannot be used: {reason}")
