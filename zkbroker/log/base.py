"""What all parts of a log share: its segments, ends, settings, locks, and who is told of an append.

Invariant: `_lock` guards the state and is never held over a wait for the disk but in a truncation;
`_files` is held by whoever takes files out of the log, before `_lock`. After an error of the disk
nothing is acknowledged any more: the data directory goes offline, and every call raises
`StorageError`.
"""

import itertools
import logging
import random
from collections.abc import Callable
from pathlib import Path

from zkbroker.config.log import LogConfig
from zkbroker.log.appending import append_policy
from zkbroker.log.directory import DataDirectory
from zkbroker.log.durability import Durability
from zkbroker.log.names import TopicPartition
from zkbroker.log.producers.stability import EndedTransactions, Verifications
from zkbroker.log.producers.state import write_snapshot
from zkbroker.log.results import LogState
from zkbroker.log.segment_list import SegmentList
from zkbroker.log.segments.segment import Segment
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS

logger = logging.getLogger(__name__)


class BaseLog:
    """The state of a log, and how it goes on in a new segment."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        path: Path,
        config: LogConfig,
        directory: DataDirectory,
        state: LogState,
    ) -> None:
        self.topic_partition = topic_partition
        self.path = path
        self.directory = directory
        """The data directory it is in."""
        self.config = config
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.producers = state.producers
        """What is known of idempotent and transactional producers."""
        self._ended = EndedTransactions()
        self._verifications = Verifications()
        self.epochs = state.epochs
        """Leader epochs; changed by appends and truncations alone."""
        self.truncations = 0
        """How often the log was cut at its end: what was read of it before may not hold."""
        self.lowest_cut = 2**63 - 1
        """The lowest offset at which it was cut since somebody set it back to `2**63 - 1`."""
        self._fs = directory.fs
        self._offload = directory.runtime.offload
        self._lock = directory.runtime.lock()
        self._files = directory.runtime.lock()
        self._listeners: tuple[Callable[[], None], ...] = ()
        self._gone: str | None = None
        self._led_under = -1  # the epoch that leads now, as far as epochs and policy know it
        self._created_ms = directory.now_ms()
        with directory.storage():
            self._segments = SegmentList(directory, path, config, state.segments)
        self._durability = Durability(
            directory,
            path,
            end=self.log_end_offset,
            active=self._segments.active,
            durable=state.recovery_point,
            unsynced=[
                segment
                for segment, following in itertools.pairwise(state.segments)
                if following.base_offset > state.recovery_point
            ],
        )
        self._configure(config)

    # Settings and state

    def _configure(self, config: LogConfig) -> None:
        self.config = config
        self._segments.configure(config)
        jitter = min(config.roll_jitter_ms, config.roll_ms - 1)
        self._roll_jitter_ms = random.randint(0, jitter)  # noqa: S311 - no secret
        self._policy = append_policy(config, max(self.epochs.latest, 0))
        self._internal = self.topic_partition.topic in INTERNAL_TOPICS
        self._keys_wanted = config.compacted and not self._internal

    def update_config(self, config: LogConfig) -> None:
        """Use other settings from now on."""
        with self._lock:
            self._configure(config)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Ascending, never empty; the last one is written."""
        return self._segments.all

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments."""
        return self._segments.size_bytes

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first open transaction begins, None when none is open."""
        return self.producers.first_unstable_offset(self.log_start_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the end of what readers of committed messages see, below a high watermark."""
        stable = high_watermark
        begun = self.producers.first_unstable_offset(self.log_start_offset)
        ended = self._ended.first_unstable_offset(high_watermark)
        if begun is None and ended is None:
            return stable
        for first in (begun, ended):
            if first is not None and first < stable:
                stable = max(first, self.log_start_offset)
        return stable

    @property
    def recovery_point(self) -> int:
        """Offset below which log and indexes are on stable storage."""
        return self._durability.recovery_point

    @property
    def recovery_start(self) -> int:
        """What a checkpoint says of the recovery point: no later than the segment it is in."""
        return self._durability.recovery_start

    @property
    def unflushed_since_ms(self) -> int | None:
        """When the oldest message that is not yet on stable storage was written."""
        return self._durability.unflushed_since_ms

    @property
    def offline(self) -> str | None:
        """Why the log cannot be used, None when it can."""
        return self._gone or self.directory.offline

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the last epoch that is not newer than one, and where it ends (-1, -1: unknown)."""
        with self._lock:
            return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def add_append_listener(self, listener: Callable[[], None]) -> None:
        """Have a function called after each append, and when the log goes offline or away.

        It runs in the appender's context: it must not wait, raise, or call the log.
        """
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def remove_append_listener(self, listener: Callable[[], None]) -> None:
        """Undo `add_append_listener`; a listener that is not there is no error."""
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each != listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()

    def _require_online(self) -> None:
        reason = self.offline
        if reason is not None:
            raise self.directory.error(f"{self.topic_partition}: {reason}")

    def roll(self, *, now_ms: int | None = None) -> Segment:
        """Begin a new segment at the log's end; without effect while the last one is empty.

        Raises:
            StorageError: the disk failed.
        """
        with self._lock:
            self._require_online()
            if self._segments.active.size == 0:
                return self._segments.active
            end = self.log_end_offset
            with self.directory.storage():
                write_snapshot(self._fs, self.path, end, self.producers)
                self._durability.names_changed()
                self._segments.roll(end)
            self._durability.rolled(self._segments.active)
            self._created_ms = self.directory.now_ms() if now_ms is None else now_ms
            segment = self._segments.active
        logger.debug("log rolled partition=%s base_offset=%d", self.topic_partition, end)
        self._durability.request(end)
        return segment
