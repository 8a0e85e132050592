"""Leader epochs of a log: under which leadership each range of offsets was appended.

Invariant: epochs and start offsets grow; the file `leader-epoch-checkpoint` holds them all.
"""

import logging
from pathlib import Path

from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.log.checkpoints import read_epochs, write_epochs
from zkbroker.log.fs import FileSystem

logger = logging.getLogger(__name__)


class LeaderEpochs:
    """The epochs of one log, kept in its directory."""

    def __init__(self, fs: FileSystem, directory: Path) -> None:
        self._fs = fs
        self._path = directory / names.LEADER_EPOCHS
        try:
            self._epochs = read_epochs(self._path)
        except StorageError as error:
            # It can be had again only from a leader; there is none but this broker.
            logger.warning("leader epochs ignored reason=%s", error)
            self._epochs = []

    @property
    def latest(self) -> int:
        """The current epoch, -1 before the first."""
        return self._epochs[-1][0] if self._epochs else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Begin an epoch at an offset; False when it is not newer than the current one.

        Raises:
            OSError: it cannot be written.
        """
        if epoch <= self.latest:
            return False
        # An epoch under which nothing was appended gives way to the new one.
        kept = [pair for pair in self._epochs if pair[1] < start_offset]
        self._save([*kept, (epoch, start_offset)])
        return True

    def truncate(self, end_offset: int) -> None:
        """Drop the epochs that begin past the log's end.

        Raises:
            OSError: it cannot be written.
        """
        kept = [pair for pair in self._epochs if pair[1] <= end_offset]
        if kept != self._epochs:
            self._save(kept)

    def truncate_start(self, start_offset: int) -> None:
        """Let the epochs begin at the log's new start.

        Raises:
            OSError: it cannot be written.
        """
        before = [pair for pair in self._epochs if pair[1] <= start_offset]
        if len(before) > 1 or (before and before[-1][1] < start_offset):
            after = [pair for pair in self._epochs if pair[1] > start_offset]
            self._save([(before[-1][0], start_offset), *after])

    def end_of(self, epoch: int, log_end_offset: int) -> int:
        """Return the offset where an epoch ended, -1 for one that is not known."""
        for index, (known, _) in enumerate(self._epochs):
            if known == epoch:
                following = self._epochs[index + 1 :]
                return following[0][1] if following else log_end_offset
        return -1

    def _save(self, epochs: list[tuple[int, int]]) -> None:
        write_epochs(self._fs, self._path, epochs)
        self._epochs = epochs
