"""Ends the transactions that genuine brokers left open in adopted logs.

A transaction is ended by its coordinator, which adopted logs do not have. Readers of committed
messages would wait for ever at its first message.

Invariant: a transaction is aborted only when the user runs the command; a data directory without
    open transactions is not changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zkbroker.admin.log_check import partition_directories
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.errors import StorageError
from zkbroker.log import LogManager, TopicPartition
from zkbroker.log.producers.loading import find_open_transactions


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that was open, and in a dry run still is."""

    partition: TopicPartition
    producer_id: int
    first_offset: int
    last_offset: int


def abort_transactions(paths: Sequence[Path], *, dry_run: bool = False) -> list[Ended]:
    """Append an ABORT marker for every open transaction.

    Args:
        paths: data directories, or partitions' directories in them; no broker may use them.
        dry_run: change nothing.

    Returns:
        The transactions that were open.

    Raises:
        StorageError: a data directory is in use, or cannot be written.
    """
    found: dict[Path, list[Ended]] = {}
    for directory in partition_directories([path.absolute() for path in paths]):
        try:
            open_here = find_open_transactions(directory)
        except OSError as error:
            raise StorageError(f"cannot read {directory}: {error.strerror}") from error
        if open_here:
            tp = TopicPartition.parse(directory.name)
            found[directory] = [
                Ended(tp, each.producer_id, each.first_offset, each.last_offset)
                for each in open_here
            ]
    if not dry_run:
        for root in sorted({directory.parent for directory in found}):
            _abort(root, [directory for directory in found if directory.parent == root])
    return [ended for directory in sorted(found) for ended in found[directory]]


def _abort(root: Path, directories: list[Path]) -> None:
    manager = LogManager(LogManagerConfig(log_dirs=(str(root),)), LogConfig())
    # The topics' settings are unknown here, so a gap in offsets is not cut off.
    manager.start(topic_settings=lambda _: {})
    try:
        for directory in directories:
            log = manager.get(TopicPartition.parse(directory.name))
            if log is not None:
                for each in log.producers.open_transactions():
                    log.end_transaction(
                        each.producer_id,
                        each.producer_epoch,
                        commit=False,
                        coordinator_epoch=max(each.coordinator_epoch, 0),
                        leader_epoch=max(log.epochs.latest, 0),
                    )
    finally:
        manager.close()
