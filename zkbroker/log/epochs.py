"""Leader epochs of a log and their start offsets.

Invariant: epochs and start offsets grow; the file `leader-epoch-checkpoint` holds them all, and is
whole at any moment. An epoch ends where the next one begins. An epoch in the file survives a power
cut once messages of that epoch count as flushed, because their flush also makes the file's new name
stable. If the power fails before, recovery takes the epochs from the batches; messages without an
epoch then belong to the epoch before, and a replica truncates rather too much than too little.
"""

import logging
from pathlib import Path
from typing import Final

from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.log.checkpoints import read_epochs, write_epochs
from zkbroker.log.fs import FileSystem

logger = logging.getLogger(__name__)

UNDEFINED: Final = (-1, -1)


class LeaderEpochs:
    """The epochs of one log, kept in its directory."""

    def __init__(self, fs: FileSystem, directory: Path) -> None:
        self._fs = fs
        self._path = directory / names.LEADER_EPOCHS
        try:
            epochs = read_epochs(self._path)
        except StorageError as error:
            # A follower learns them from its leader again; a leader begins with its next epoch.
            logger.warning("leader epochs ignored reason=%s", error)
            epochs = []
        self._use(epochs)

    def _use(self, epochs: list[tuple[int, int]]) -> None:
        self._epochs = epochs
        self.latest = epochs[-1][0] if epochs else -1
        """The last epoch, -1 before the first."""

    def all(self) -> list[tuple[int, int]]:
        """Return (epoch, start offset) of each, oldest first."""
        return list(self._epochs)

    def goes_on(self, epoch: int, offset: int) -> bool:
        """Whether messages of an epoch (-1 for none) from an offset on belong to the latest one."""
        if not self._epochs:
            return epoch < 0
        latest, start = self._epochs[-1]
        return latest == epoch and start <= offset

    def assign(self, epoch: int, start_offset: int, *, durable: bool = True) -> None:
        """Begin an epoch at an offset; known epochs as high, or starting as late, are dropped.

        Args:
            epoch: the epoch.
            start_offset: its first offset.
            durable: make the file's new name stable now; if False, the caller must do so before
                messages of the epoch count as flushed.

        Raises:
            OSError: it cannot be written.
        """
        if self.goes_on(epoch, start_offset):
            return
        kept = [pair for pair in self._epochs if pair[0] < epoch and pair[1] < start_offset]
        self._save([*kept, (epoch, start_offset)], durable=durable)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the latest epoch that is not newer than a given one, with its end offset.

        An epoch below all known ones ends where the first known one begins. For an epoch newer than
        all known ones the result is (-1, -1), undefined.

        Args:
            epoch: the requested epoch.
            log_end_offset: the end offset of the last epoch.
        """
        if epoch < 0 or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        before = epoch
        for known, start in self._epochs:
            if known > epoch:
                return before, start
            before = known
        raise AssertionError("an epoch below the last one has one behind it")

    def truncate_to(self, end_offset: int) -> None:
        """Drop the epochs that begin at or after an offset.

        Raises:
            OSError: it cannot be written.
        """
        kept = [pair for pair in self._epochs if pair[1] < end_offset]
        if kept != self._epochs:
            self._save(kept)

    def advance_start_to(self, start_offset: int) -> None:
        """Move the start of the epochs to the log's new start.

        Raises:
            OSError: it cannot be written.
        """
        before = [pair for pair in self._epochs if pair[1] <= start_offset]
        if len(before) > 1 or (before and before[-1][1] < start_offset):
            after = [pair for pair in self._epochs if pair[1] > start_offset]
            self._save([(before[-1][0], start_offset), *after])

    def clear(self) -> None:
        """Drop all epochs.

        Raises:
            OSError: it cannot be written.
        """
        if self._epochs:
            self._save([])

    def _save(self, epochs: list[tuple[int, int]], *, durable: bool = True) -> None:
        write_epochs(self._fs, self._path, epochs, durable=durable)
        self._use(epochs)
