"""The folders of a directory of 0.7 logs: found, recovered, created.

    .lock  .kafka_cleanshutdown  TOPIC-N/…

Invariant: every method may wait for the disk and raises `OSError` if that fails. An unknown file is
left alone, an unknown folder is refused.
"""

import contextlib
import logging
import re
from collections.abc import Callable
from pathlib import Path

from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.log.fs import FileSystem
from zkbroker.log.legacy07.master import LogMaster
from zkbroker.log.legacy07.offset_map import MapHead, MapReader, make_map, map_files, map_of
from zkbroker.log.legacy07.recovery import load_segments, recover
from zkbroker.log.legacy07.segment import Segment07
from zkbroker.log.legacy07.view import OpenedView, ViewProgress
from zkbroker.log.legacy07.view_recovery import open_view
from zkbroker.log.recovery.scan import Cut

logger = logging.getLogger(__name__)

_FOLDER = re.compile(r"(.+)-(0|[1-9]\d{0,9})", re.DOTALL)
_INT32_MAX = 2**31 - 1

Key = tuple[str, int]
Masters = Callable[[str, int], LogMaster | None]
"""Returns the newer log of a topic's partition, None if there is none here."""


class LogFolders:
    """The folders of one directory.

    Args:
        fs: the file system.
        directory: an existing one.
        now_ms: wall clock in milliseconds.
        masters: finds the masters from which views are rebuilt after a crash.
    """

    def __init__(
        self, fs: FileSystem, directory: Path, now_ms: Callable[[], int], masters: Masters
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._now_ms = now_ms
        self._masters = masters
        self.cuts: list[Cut] = []
        """The cuts that the recovery made."""

    def find_all(self) -> dict[Key, list[Segment07] | OpenedView]:
        """Open every log, and recover it if the last stop was not clean.

        Raises:
            StorageError: a folder or file is not that of a 0.7 log.
        """
        found: dict[Key, list[Segment07] | OpenedView] = {}
        clean = (self._directory / names.CLEAN_SHUTDOWN).exists()
        for path in sorted(self._directory.iterdir()):
            if not path.is_dir():
                if path.name not in (names.LOCK, names.CLEAN_SHUTDOWN):
                    logger.warning("not a 0.7 log, left alone: %s", path)
                continue
            match = _FOLDER.fullmatch(path.name)
            if match is None or int(match[2]) > _INT32_MAX:
                raise StorageError(
                    f"{path} is not a folder of a 0.7 log (topic-partition): move it out of "
                    f"{self._directory}"
                )
            key = match[1], int(match[2])
            maps = map_files(path)
            if maps:
                head = MapReader(maps[0]).head
                master = None if head is None else self._masters(key[0], head.partition)
                view = open_view(self._fs, path, master, clean=clean)
                if view is None:
                    self._fs.remove_tree(path)
                else:
                    found[key] = view
                continue
            segments, unknown = load_segments(self._fs, path)
            for name in unknown:
                if name.endswith(names.LOG):
                    raise StorageError(
                        f"{path / name} is not a file of Kafka 0.7: legacy07.log.dir must be a "
                        "directory of 0.7 logs alone"
                    )
                logger.warning("not part of a 0.7 log, left alone: %s", path / name)
            if segments and not clean:
                cut = recover(self._fs, segments[-1], self._now_ms())
                if cut is not None:
                    logger.error("0.7 log cut %s", cut)
                    self.cuts.append(cut)
            found[key] = segments or [self._first_file(path)]
        return found

    def mark_clean(self) -> None:
        """Write the mark that every file is whole and on stable storage."""
        self._fs.write_file(self._directory / names.CLEAN_SHUTDOWN, b"")

    def forget_clean(self) -> None:
        """Remove the mark, before anything is appended."""
        marker = self._directory / names.CLEAN_SHUTDOWN
        if marker.exists():
            self._fs.unlink(marker)
            self._fs.fsync_dir(self._directory)

    def make_log(self, path: Path) -> Segment07:
        """Create a folder with an empty file."""
        self._fs.mkdir(path)
        self._fs.fsync_dir(self._directory)
        return self._first_file(path)

    def _first_file(self, path: Path, start: int = 0) -> Segment07:
        first = Segment07(self._fs, path, start, 0)
        first.hold()
        first.release()
        self._fs.fsync_dir(path)
        return first

    def make_view(self, path: Path, head: MapHead) -> OpenedView:
        """Create the files of a view, the map first."""
        self._fs.mkdir(path)
        self._fs.fsync_dir(self._directory)
        kafka = path / names.file_name(head.position, names.KAFKA_07)
        self._fs.close(make_map(self._fs, map_of(kafka), head))
        first = self._first_file(path, head.position)
        return OpenedView(
            head.partition, [first], [head.offset], ViewProgress(head.offset, head.epoch)
        )

    def remove_map(self, kafka: Path) -> None:
        """Let the file of a view be that of a log again."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.unlink(map_of(kafka))
        self._fs.fsync_dir(kafka.parent)


def folder_name(topic: str, partition: int) -> str:
    """Return the name of a log's folder."""
    return f"{topic}-{partition}"
