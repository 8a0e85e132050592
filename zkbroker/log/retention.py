"""Retention policies: they decide which segments have expired.

    [project.entry-points."zkbroker.retention_policies"]
    my-policy = "my_package:make_policy"

    log.retention.policy=my-policy            (or, with an argument:)  my-policy:argument

An entry point is a callable `(config: LogConfig, directory: Path, argument: str) -> policy`; a
policy's `expired(segments, now_ms)` returns how many of the oldest segments to delete.

Invariant: segments are deleted only from the old end of a log, so the rest has no gaps. A policy
decides, and never deletes; an error of a policy leaves the log as it is.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError

logger = logging.getLogger(__name__)

GROUP = "zkbroker.retention_policies"


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """A segment as a policy sees it.

    Args:
        base_offset: offset of its first message.
        size_bytes: of its messages.
        newest_ms: largest timestamp in it; the time of its file if it has none (magic 0).
    """

    base_offset: int
    size_bytes: int
    newest_ms: int


class RetentionPolicy(Protocol):
    """Decides what to delete."""

    def expired(self, segments: Sequence[SegmentSummary], now_ms: int) -> int:
        """Return how many of the oldest segments to delete.

        Args:
            segments: of one log, oldest first; the last one is active.
            now_ms: the clock.
        """


class TimeAndSize:
    """The default: `retention.ms` and `retention.bytes`, whichever expires a segment first."""

    def __init__(self, config: LogConfig) -> None:
        self._config = config

    def expired(self, segments: Sequence[SegmentSummary], now_ms: int) -> int:
        """Return how many of the oldest segments are past either limit."""
        return max(self._by_time(segments, now_ms), self._by_size(segments))

    def _by_time(self, segments: Sequence[SegmentSummary], now_ms: int) -> int:
        limit = self._config.retention_ms
        if limit < 0:
            return 0
        for count, segment in enumerate(segments):
            if now_ms - segment.newest_ms <= limit:
                return count
        return len(segments)

    def _by_size(self, segments: Sequence[SegmentSummary]) -> int:
        if self._config.retention_bytes < 0:
            return 0
        surplus = sum(segment.size_bytes for segment in segments) - self._config.retention_bytes
        for count, segment in enumerate(segments):
            if surplus < segment.size_bytes or segment.size_bytes == 0:
                return count
            surplus -= segment.size_bytes
        return len(segments)


BUILT_IN: Mapping[str, Callable[[LogConfig], RetentionPolicy]] = {"time-and-size": TimeAndSize}


def make_policy(config: LogConfig, directory: Path) -> RetentionPolicy:
    """Return the policy that a log's settings name.

    Raises:
        ConfigError: there is no such policy, or it cannot be made with its argument.
    """
    name, _, argument = config.retention_policy.partition(":")
    if name in BUILT_IN:
        return BUILT_IN[name](config)
    # Imported on demand: most brokers never look for a plug-in.
    from importlib.metadata import entry_points

    found = next(iter(entry_points(group=GROUP, name=name)), None)
    if found is None:
        known = sorted({*BUILT_IN, *(each.name for each in entry_points(group=GROUP))})
        raise ConfigError(
            f"retention.policy={config.retention_policy!r} is unknown: known are "
            f"{', '.join(known)}; add yours as an entry point of {GROUP}"
        )
    try:
        policy: RetentionPolicy = found.load()(config, directory, argument)
    except Exception as error:
        raise ConfigError(f"retention.policy={config.retention_policy!r}: {error}") from error
    return policy


def expired(
    config: LogConfig, directory: Path, segments: Sequence[SegmentSummary], now_ms: int
) -> int:
    """Ask a log's policy how many of its segments, oldest first, to delete.

    Raises:
        ConfigError: the policy cannot be loaded, or failed; this is no failure of the disk.
    """
    try:
        return make_policy(config, directory).expired(segments, now_ms)
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(
            f"retention.policy={config.retention_policy!r} failed: {error!r}"
        ) from error
