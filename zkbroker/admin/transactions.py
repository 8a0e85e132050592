"""Ending the transactions that genuine brokers left open in logs that were adopted.

A transaction is ended by its coordinator, and there is none here. One that is open holds up readers
of committed messages at its first message, for ever.

Invariant: only whoever runs the command decides that a transaction is aborted; a log without open
transactions is not changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zkbroker.admin.log_check import partition_directories
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.log import LogManager, TopicPartition


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that was open, or still is.

    Args:
        partition: where.
        producer_id: whose.
        first_offset: of its first message.
        last_offset: of its last one.
    """

    partition: TopicPartition
    producer_id: int
    first_offset: int
    last_offset: int


def abort_transactions(paths: Sequence[Path], *, dry_run: bool = False) -> list[Ended]:
    """Append an ABORT marker for every open transaction.

    Args:
        paths: data directories, or partitions' directories in them; no broker may use them.
        dry_run: append nothing.

    Returns:
        The transactions that were open.

    Raises:
        StorageError: a data directory is in use, or cannot be written.
    """
    wanted = {directory.absolute() for directory in partition_directories(paths)}
    found: list[Ended] = []
    for root in sorted({directory.parent for directory in wanted}):
        manager = LogManager(LogManagerConfig(log_dirs=(str(root),)), LogConfig())
        manager.start()
        try:
            for directory in sorted(wanted):
                if directory.parent != root:
                    continue
                tp = TopicPartition.parse(directory.name)
                log = manager.get(tp)
                if log is None:
                    continue
                ended = log.open_transactions if dry_run else log.abort_transactions()
                found += [
                    Ended(tp, each.producer_id, each.first_offset, each.last_offset)
                    for each in ended
                ]
        finally:
            manager.close()
    return found
