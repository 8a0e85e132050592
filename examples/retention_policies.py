"""Two retention policies to start from.

Register them in the `pyproject.toml` of a package that is installed beside zkbroker:

    [project.entry-points."zkbroker.retention_policies"]
    free-space = "retention_policies:free_space"
    whole-days = "retention_policies:whole_days"

and name one in `server.properties` (`log.retention.policy=free-space:20`) or in a topic's own
configuration (`retention.policy=whole-days`).
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.log.retention import SegmentSummary, TimeAndSize

DAY_MS = 86_400_000


@dataclass(frozen=True)
class FreeSpace:
    """Like the default; also deletes the oldest segments while the disk is too full."""

    config: LogConfig
    directory: Path
    percent: float
    usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage

    def expired(self, segments: Sequence[SegmentSummary], now_ms: int) -> int:
        count = TimeAndSize(self.config).expired(segments, now_ms)
        total, _, free = self.usage(self.directory)
        free += sum(segment.size_bytes for segment in segments[:count])
        # The active segment stays.
        while count < len(segments) - 1 and free < total * self.percent / 100:
            free += segments[count].size_bytes
            count += 1
        return count


def free_space(config: LogConfig, directory: Path, argument: str) -> FreeSpace:
    """Keep `argument` percent of the disk free."""
    percent = float(argument)
    if not 0 < percent < 100:
        raise ValueError("give the percentage of the disk to keep free, such as free-space:20")
    return FreeSpace(config, directory, percent)


@dataclass(frozen=True)
class WholeDays:
    """Delete only when a whole UTC day is past `retention.ms`, never the middle of one."""

    config: LogConfig

    def expired(self, segments: Sequence[SegmentSummary], now_ms: int) -> int:
        if self.config.retention_ms < 0:
            return 0
        first_kept_day = (now_ms - self.config.retention_ms) // DAY_MS
        for count, segment in enumerate(segments):
            if segment.newest_ms // DAY_MS >= first_kept_day:
                return count
        return len(segments)


def whole_days(config: LogConfig, directory: Path, argument: str) -> WholeDays:
    """Make the policy; it takes no argument."""
    return WholeDays(config)
