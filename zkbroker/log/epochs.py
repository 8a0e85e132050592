"""Leader epochs of a log and their start offsets.

Invariant: epochs and start offsets grow; the file `leader-epoch-checkpoint` holds them all. An
epoch ends where the next one begins. The file is whole at any moment. Once messages of an epoch
count as flushed, its entry survives a power cut: their flush makes the file's new name stable.
Before that, recovery finds epochs in the batches; messages that carry no epoch then count as part
of the previous one, so that a replica may truncate too much, but never too little.
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
            # A follower gets them again from its leader; a leader begins with the next epoch.
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
        """Whether messages from an offset on continue the last epoch (-1: they carry none)."""
        if not self._epochs:
            return epoch < 0
        latest, start = self._epochs[-1]
        return latest == epoch and start <= offset

    def assign(self, epoch: int, start_offset: int, *, durable: bool = True) -> None:
        """Begin an epoch at an offset; drop epochs that are not older or do not begin earlier.

        Args:
            epoch: the epoch.
            start_offset: where it begins.
            durable: whether to make the file's new name stable now; if not, the caller must do so
                before messages of the epoch count as flushed.

        Raises:
            OSError: it cannot be written.
        """
        if self.goes_on(epoch, start_offset):
            return
        kept = [pair for pair in self._epochs if pair[0] < epoch and pair[1] < start_offset]
        self._save([*kept, (epoch, start_offset)], durable=durable)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the last epoch that is not newer than `epoch`, and where it ends.

        An epoch below all known ones ends where the first of them begins, the last one at the log's
        end; for an epoch above all of them the result is (-1, -1).
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
        raise AssertionError("an epoch below the last one has a later one")

    def truncate_to(self, end_offset: int) -> None:
        """Drop the epochs that begin at or after an offset.

        Raises:
            OSError: it cannot be written.
        """
        kept = [pair for pair in self._epochs if pair[1] < end_offset]
        if kept != self._epochs:
            self._save(kept)

    def advance_start_to(self, start_offset: int) -> None:
        """Adjust the epochs to the log's new start.

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
