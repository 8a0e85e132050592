"""The 0.7 logs of one data directory: opening, recovery, timed flushes, retention.

Invariants: one broker uses a directory at a time (`DirectoryLock`). `.kafka_cleanshutdown` exists
only while every file is whole and on stable storage: a clean stop makes it last, and a start
removes it before anything is appended.
"""

import contextlib
import logging
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from zkbroker.config.legacy07 import Legacy07Config
from zkbroker.errors import InvalidTopic, StorageError
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.folders import Key, LogFolders, Masters, folder_name
from zkbroker.log.legacy07.log import Legacy07Log
from zkbroker.log.legacy07.offset_map import MapHead
from zkbroker.log.legacy07.segment import Segment07
from zkbroker.log.legacy07.view import OpenedView, View07
from zkbroker.log.lock import DirectoryLock
from zkbroker.log.recovery.scan import Cut
from zkbroker.private_files import make_private_directory, warn_of_wide_rights
from zkbroker.runtime import OwnerLoop, Runtime
from zkbroker.runtime.pacing import paced

logger = logging.getLogger(__name__)

# Characters that 0.7.2 refuses in a topic's name: slashes, controls, surrogates, private use,
# specials.
_ILLEGAL = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]")
_MAX_FOLDER_BYTES = 255
_AT_A_TIME = 64


class Claim(NamedTuple):
    """A view to be made: which 0.7 index shows which partition, from which offset on."""

    number: int
    partition: int
    offset: int


class Legacy07Logs:
    """All 0.7 logs of a broker.

    Args:
        config: its settings; `log_dir` is the directory.
        runtime: runs its tasks and the calls that wait for the disk.
        now_ms: wall clock in milliseconds.
        fs: the file system.
        masters: finds the masters from which views are rebuilt after a crash.
    """

    def __init__(
        self,
        config: Legacy07Config,
        *,
        runtime: Runtime,
        now_ms: Callable[[], int],
        fs: FileSystem | None = None,
        masters: Masters = lambda topic, partition: None,
    ) -> None:
        self.directory = Path(config.log_dir)
        self.on_new_topic: Callable[[str], object] = lambda topic: None
        """Called when a topic gets its first log, and when its views change."""
        self._config = config
        self._runtime = runtime
        self._now_ms = now_ms
        self._fs = fs or FileSystem()
        self._folders = LogFolders(self._fs, self.directory, now_ms, masters)
        self._logs: dict[Key, Legacy07Log] = {}
        self._topics: set[str] = set()
        self._view_counts: dict[str, int] = {}
        self._making = runtime.lock()
        self._lock: DirectoryLock | None = None
        self._loops = [
            self._loop(self._flush_due, "flush"),
            self._loop(self._delete_expired, "retention"),
        ]

    def start(self) -> None:
        """Lock the directory, open and recover its logs.

        Raises:
            StorageError: it cannot be used; the message tells what to change.
        """
        try:
            make_private_directory(self.directory)
            self._lock = DirectoryLock(self.directory)
            warn_of_wide_rights(self.directory)
            for key, found in self._runtime.offload(self._folders.find_all).items():
                self._add(key, found)
            self._folders.forget_clean()
        except OSError as error:
            self._release()
            raise StorageError(f"0.7 logs of {self.directory} cannot be opened: {error}") from error
        except StorageError:
            self._release()
            raise
        self._check_counts()
        self._loops[0].start(self._config.flush_check_ms / 1000)
        self._loops[1].start(self._config.cleanup_ms / 1000)
        logger.info("0.7 logs opened directory=%s logs=%d", self.directory, len(self._logs))

    def close(self) -> None:
        """Flush and close every log, and mark the directory as closed cleanly."""
        for loop in self._loops:
            loop.close()
        if self._close_logs() and self._lock is not None:
            try:
                self._folders.mark_clean()
            except OSError as error:
                logger.warning("clean shutdown not marked directory=%s: %s", self.directory, error)
        self._release()

    @property
    def cuts(self) -> list[Cut]:
        """The cuts that the recovery at the start made."""
        return self._folders.cuts

    @property
    def topics(self) -> frozenset[str]:
        """The topics with a log."""
        return frozenset(self._topics)

    def all(self) -> dict[Key, Legacy07Log]:
        """Return every log by topic and partition."""
        return dict(self._logs)

    def get(self, topic: str, partition: int) -> Legacy07Log | None:
        """Return a log, None if nothing was produced to it yet."""
        return self._logs.get((topic, partition))

    def get_or_make(self, topic: str, partition: int) -> Legacy07Log:
        """Return a log, which is created if it does not exist.

        Raises:
            InvalidTopic: the name is not allowed.
            StorageError: it cannot be made, the topic has views, or there are too many logs.
        """
        log = self._logs.get((topic, partition))
        if log is not None:
            return log
        folder = folder_name(topic, partition)
        if len(os.fsencode(folder)) > _MAX_FOLDER_BYTES:
            raise InvalidTopic(f"topic name {topic[:40]!r}... is too long for a folder name")
        with self._making:
            log = self._logs.get((topic, partition))
            if log is not None:
                return log
            if self.is_view(topic):
                raise StorageError(f"the 0.7 log {folder} cannot be made: {topic} has views here")
            self.check_room()
            try:
                first = self._runtime.offload(self._folders.make_log, self.directory / folder)
                self._add((topic, partition), [first])
            except OSError as error:
                raise StorageError(f"the 0.7 log {folder} cannot be made: {error}") from error
            logger.info("0.7 log made topic=%s partition=%d", topic, partition)
        return self._logs[topic, partition]

    def views(self, topic: str | None = None) -> dict[Key, View07]:
        """Return every view, or those of one topic, by topic and index."""
        return {
            key: log
            for key, log in self._logs.items()
            if isinstance(log, View07) and topic in (None, key[0])
        }

    def make_views(self, topic: str, claims: Sequence[Claim]) -> None:
        """Create views, in place of empty logs if they exist.

        A view continues at the end position of an empty log, since retention may have emptied it.

        Raises:
            StorageError: they cannot be made, or there are too many logs.
        """
        with self._making:
            new = [each for each in claims if not self._holds_view(topic, each.number)]
            emptied = [self._logs.get((topic, each.number)) for each in new]
            for known in emptied:
                if known is None:
                    self.check_room(len(new))
                elif known.size:
                    raise StorageError(f"{known.directory} holds a 0.7 log of its own")
            # Nothing is refused any more: no log is closed for a view that is not made.
            for known in emptied:
                if known is not None:
                    known.close()
            starts = [0 if known is None else known.end for known in emptied]
            try:
                views = []
                for each, start in zip(new, starts, strict=True):
                    path = self.directory / folder_name(topic, each.number)
                    head = MapHead(each.partition, start, each.offset, -1)
                    views.append(self._runtime.offload(self._folders.make_view, path, head))
                for each, view in zip(new, views, strict=True):
                    self._add((topic, each.number), view)
            except OSError as error:
                for each, known in zip(new, emptied, strict=True):
                    if not self._holds_view(topic, each.number):
                        self._undo_view((topic, each.number), known)
                raise StorageError(f"0.7 views of {topic} cannot be made: {error}") from error
            for each in new:
                logger.info("0.7 view made topic=%s index=%d partition=%d", topic, *each[:2])
        self.on_new_topic(topic)

    def _holds_view(self, topic: str, index: int) -> bool:
        return isinstance(self._logs.get((topic, index)), View07)

    def _undo_view(self, key: Key, emptied: Legacy07Log | None) -> None:
        """Remove the files of a view that is not made, and open the empty log before it again."""
        path = self.directory / folder_name(*key)
        try:
            if emptied is None:
                self._runtime.offload(self._fs.remove_tree, path)
            else:
                self._runtime.offload(self._folders.remove_map, emptied.files[-1])
                self._add(key, [Segment07(self._fs, path, emptied.end, 0)])
        except OSError as error:
            logger.warning("0.7 view not undone directory=%s: %s", path, error)

    def has_data(self, topic: str) -> bool:
        """Whether a topic has its own 0.7 logs here with messages in them."""
        return (
            topic in self._topics
            and topic not in self._view_counts
            and any(log.size for (name, _), log in self._logs.items() if name == topic)
        )

    def delete_view(self, topic: str, index: int) -> None:
        """Delete a view with its files: its topic was deleted.

        Raises:
            StorageError: the disk failed.
        """
        with self._making:
            view = self._logs.get((topic, index))
            if not isinstance(view, View07):
                return
            view.attach(None)
            # At once: a reader would open a deleted file, and so create it again.
            del self._logs[topic, index]
            self._count_views(topic)
            self._topics = {key[0] for key in self._logs}
            try:
                with contextlib.suppress(StorageError):
                    # Its messages are deleted, whether they can be flushed or not.
                    view.close()
                self._runtime.offload(self._fs.remove_tree, view.directory)
            except OSError as error:
                raise StorageError(f"{view.directory} cannot be deleted: {error}") from error
            logger.info("0.7 view deleted topic=%s index=%d", topic, index)
        self.on_new_topic(topic)

    def check_room(self, more: int = 1) -> None:
        """Check that more logs are allowed.

        Raises:
            StorageError: there are too many.
        """
        if len(self._logs) + more > self._config.max_logs:
            raise StorageError(
                f"there are {len(self._logs)} 0.7 logs: legacy07.logs.max allows no more"
            )

    def check_topic(self, topic: str) -> None:
        """Refuse a name that 0.7.2 refuses.

        Raises:
            InvalidTopic: it cannot be the name of a topic.
        """
        longest = self._config.max_topic_length
        if not 0 < len(topic) <= longest or topic in (".", "..") or _ILLEGAL.search(topic):
            raise InvalidTopic(
                f"{topic[:40]!r} is no topic name of 0.7: give 1 to {longest} characters, not . or "
                ".., without / and control characters"
            )

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic on this broker."""
        return self._view_counts.get(topic) or self._config.partitions(topic)

    def is_view(self, topic: str) -> bool:
        """Whether a topic's logs here are views."""
        return topic in self._view_counts

    def _add(self, key: Key, found: list[Segment07] | OpenedView) -> None:
        path = self.directory / folder_name(*key)
        settings = self._config.of_log(key[0])
        if isinstance(found, OpenedView):
            self._logs[key] = View07(
                self._fs,
                path,
                found,
                settings,
                self._runtime,
                self._now_ms,
                kind=self._config.message_magic,
                pending_bytes=self._config.pending_bytes,
            )
            self._count_views(key[0])
        else:
            self._logs[key] = Legacy07Log(
                self._fs, path, found, settings, self._runtime, self._now_ms
            )
        if key[0] not in self._topics:
            self._topics.add(key[0])
            self.on_new_topic(key[0])

    def _count_views(self, topic: str) -> None:
        count = len(self.views(topic))
        self._view_counts.pop(topic, None)
        if count:
            self._view_counts[topic] = count

    def _check_counts(self) -> None:
        for topic, partition in sorted(self._logs):
            if partition >= self.partitions(topic):
                logger.warning(
                    "0.7 log %s-%d cannot be reached: topic %s has %d partitions; raise it in "
                    "topic.partition.count.map",
                    topic,
                    partition,
                    topic,
                    self.partitions(topic),
                )

    def _flush_due(self) -> float:
        self._with_each(lambda log: log.flush_if_due())
        return self._config.flush_check_ms / 1000

    def _delete_expired(self) -> float:
        self._with_each(lambda log: log.delete_expired())
        return self._config.cleanup_ms / 1000

    def _with_each(self, step: Callable[[Legacy07Log], object]) -> None:
        """Make a step for every log, even if it fails for some."""
        for log in paced(self._runtime, list(self._logs.values()), _AT_A_TIME):
            try:
                step(log)
            except StorageError as error:
                logger.warning("0.7 log failed directory=%s: %s", log.directory, error)

    def _loop(self, step: Callable[[], float], name: str) -> OwnerLoop:
        return OwnerLoop(
            self._runtime,
            step,
            name=f"legacy07-{name}",
            logger=logger,
            foreseen=(StorageError, OSError),
        )

    def _close_logs(self) -> bool:
        """Flush and close every log; False if one may not be on stable storage."""
        clean = True
        for log in self._logs.values():
            clean = clean and not log.failed
            try:
                log.close()
            except StorageError as error:
                clean = False
                logger.warning("0.7 log not closed cleanly: %s", error)
        self._logs.clear()
        return clean

    def _release(self) -> None:
        self._close_logs()
        if self._lock is not None:
            self._lock.release()
            self._lock = None
