"""Compacts the logs of a stopped broker.

Invariant: only the named logs are compacted, whatever their topics' settings, which are unknown
    without ZooKeeper. A dry run changes no log.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zkbroker.admin.log_check import partition_directories
from zkbroker.config.log import LogConfig, LogManagerConfig
from zkbroker.errors import CorruptMessage, StorageError
from zkbroker.log import LogManager, TopicPartition
from zkbroker.log.cleaner import CleanStats, clean, cleanable_part, dry_run
from zkbroker.log.cleaner.cleaning import PassSettings
from zkbroker.log.log import Log
from zkbroker.log.manager import wall_ms


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The compaction of a log, done or only planned.

    Args:
        partition: of the log.
        stats: figures; None if there was nothing to do.
    """

    partition: TopicPartition
    stats: CleanStats | None


def clean_logs(paths: Sequence[Path], *, config: LogConfig, only_look: bool) -> Iterator[Cleaned]:
    """Compact logs.

    Args:
        paths: data directories, or partitions' directories in them; no broker may use them.
        config: segment sizes, and how long records without a value stay.
        only_look: only compute the figures, and change nothing.

    Raises:
        StorageError: a data directory is in use, cannot be written, or a log is damaged.
    """
    directories = partition_directories([path.absolute() for path in paths])
    for root in sorted({directory.parent for directory in directories}):
        manager = LogManager(LogManagerConfig(log_dirs=(str(root),), cleaner_enable=False), config)
        # The topics' settings are unknown here, so a gap in offsets is not cut off.
        manager.start(topic_settings=lambda _: {})
        try:
            marks = manager.checkpointed_high_watermarks()
            present = set(manager.logs())
            for directory in directories:
                if directory.parent != root:
                    continue
                tp = TopicPartition.parse(directory.name)
                log = manager.get(tp)
                if log is not None:
                    mark = marks.get(tp, log.log_end_offset)
                    yield Cleaned(tp, _clean(log, mark, present, only_look=only_look))
        finally:
            manager.close()


def _clean(
    log: Log, high_watermark: int, present: set[TopicPartition], *, only_look: bool
) -> CleanStats | None:
    defaults = LogManagerConfig()
    settings = PassSettings(
        defaults.cleaner_dedupe_bytes, defaults.cleaner_load_factor, defaults.cleaner_io_bytes
    )
    part = cleanable_part(log, high_watermark, wall_ms())
    if not part.dirty_bytes:
        return None
    try:
        if only_look:
            return dry_run(part, settings)
        return clean(part, settings, keep=lambda: present)
    except CorruptMessage as error:
        raise StorageError(
            f"{log.path} cannot be compacted: {error}; zkbroker log check shows more"
        ) from error
