"""Where the Delta library reads and writes the log of a table.

    local      the library works on the output directory itself
    bucket     the library works on the bucket itself, by puts that are refused when the name exists
    mirrored   the library works on a local copy of `_delta_log`; each commit is uploaded as a new
    file

Invariant: a commit counts once its file has its name, which is given only once: of two writers of
    the same version one is refused. Nothing relies on a rename over an older file. A commit is
    durable once `commit` returns.
"""

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

LOG = "_delta_log"
_OF_VERSION = re.compile(r"(\d{20})\.(?:json|checkpoint\b.*)")
_LAST_CHECKPOINT = "_last_checkpoint"


def sync_path(path: Path) -> None:
    """Make the bytes of a file, or the names in a directory, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class TableLog:
    """The log of one table, as the library finds it; here where it works on the table itself.

    Attributes:
        uri: the URI that the library opens.
        options: storage options for the library.
    """

    def __init__(self, uri: str, options: Mapping[str, str] | None = None) -> None:
        self.uri = uri
        self.options = dict(options or {})

    def pull(self) -> None:
        """Let the library see all commits made so far."""

    def commit(self, write: Callable[[], int]) -> int:
        """Commit by calling `write`, which returns the version it wrote; return that version.

        `write` is called again, on a newer log, if another writer took the version first.
        """
        return write()

    def fetch(self, paths: list[str]) -> None:
        """Let the library read data files, given relative to the table."""

    def forget(self) -> None:
        """Forget the log, which was moved away."""


class LocalTableLog(TableLog):
    """The log in a directory of this machine; the library makes names exclusive by itself.

    The library syncs nothing. Here a commit's earlier ones are durable before it is written, then
    the files that the library wrote for it, then the commit itself, then its name.
    """

    # A process may be killed between a commit and its sync; this many later ones make up for it.
    _LOOK_BACK = 20

    def __init__(self, output: str, *, sync: bool = True) -> None:
        super().__init__(output)
        self._sync = sync
        # The last version that is known to be durable, with all before it.
        self._durable: int | None = None

    def commit(self, write: Callable[[], int]) -> int:
        if self._sync:
            self._make_durable()
        version = super().commit(write)
        if self._sync:
            self._make_durable()
        return version

    def _make_durable(self) -> None:
        """Make the versions durable that are not known to be: one write may make several."""
        log = Path(self.uri) / LOG
        found = sorted(
            (int(of_version[1]), each.name)
            for each in (log.iterdir() if log.is_dir() else ())
            if (of_version := _OF_VERSION.fullmatch(each.name))
        )
        newest = max((version for version, _ in found), default=-1)
        # Lower than what was durable where the log was moved away.
        durable = newest - self._LOOK_BACK if self._durable is None else min(self._durable, newest)
        left = [name for version, name in found if version > durable]
        for name in left:
            if name.endswith(".json"):
                self._sync_files(log / name)
            sync_path(log / name)
        if any("checkpoint" in name for name in left):
            with contextlib.suppress(FileNotFoundError):
                sync_path(log / _LAST_CHECKPOINT)
        if left:
            sync_path(log)
            if durable < 0:
                sync_path(log.parent)
        self._durable = newest

    def _sync_files(self, commit: Path) -> None:
        directories = set()
        for each in _written_by_library(commit):
            path = Path(self.uri) / each
            # A later version may have no need of it.
            with contextlib.suppress(FileNotFoundError):
                sync_path(path)
                directories.add(path.parent)
        for directory in sorted(directories):
            sync_path(directory)


def _written_by_library(commit: Path) -> Iterator[str]:
    """Yield the data files that the library wrote for a commit; mappers make theirs durable."""
    with commit.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                action = json.loads(line)
            except ValueError:
                # The library says what is wrong with it.
                return
            if action.get("commitInfo", {}).get("operation") == "WRITE":
                return
            if "add" in action:
                yield unquote(action["add"]["path"])


class BucketTableLog(TableLog):
    """The log in a bucket of S3, which the library knows; an acknowledged put is durable.

    Args:
        output: URI of the table.
        settings: as `s3.s3_settings` returns them.
    """

    def __init__(self, output: str, settings: Mapping[str, str]) -> None:
        super().__init__(output, {name.upper(): value for name, value in settings.items()})
        self.options["AWS_CONDITIONAL_PUT"] = "etag"
        if settings.get("aws_endpoint_url", "").startswith("http://"):
            self.options["AWS_ALLOW_HTTP"] = "true"


class MirroredTableLog(TableLog):
    """The log on a file system that the library does not support, by way of a local copy.

    Args:
        filesystem: where the table lies.
        output: its directory.
    """

    _TRIES = 20

    def __init__(self, filesystem: Any, output: str) -> None:
        self._fs = filesystem
        self._output = output
        self._directory = tempfile.TemporaryDirectory(prefix="zkbroker-table-")
        self._local = Path(self._directory.name)
        self._fetched: set[str] = set()
        super().__init__(self._directory.name)

    def pull(self) -> None:
        log = self._local / LOG
        log.mkdir(exist_ok=True)
        here = {each.name for each in log.iterdir()}
        for name in self._fs.names(f"{self._output}/{LOG}"):
            if not name.startswith(".") and (name not in here or name == "_last_checkpoint"):
                (log / name).write_bytes(self._fs.read(f"{self._output}/{LOG}/{name}"))

    def commit(self, write: Callable[[], int]) -> int:
        for _ in range(self._TRIES):
            before = self._files()
            version = write()
            made = self._files() - before - self._fetched
            # Data files that the library wrote are there before the commit that names them.
            for path in sorted(each for each in made if not each.startswith(LOG)):
                self._fs.upload(self._local / path, f"{self._output}/{path}")
            if self._publish(made):
                return version
            for path in made:
                with contextlib.suppress(FileNotFoundError):
                    (self._local / path).unlink()
            self.pull()
        raise OSError(f"{self._output}: other writers were faster {self._TRIES} times")

    def fetch(self, paths: list[str]) -> None:
        for path in paths:
            target = self._local / path
            self._fetched.add(path)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                with self._fs.opened(f"{self._output}/{path}") as found:
                    target.write_bytes(found.read_bytes())

    def forget(self) -> None:
        shutil.rmtree(self._local / LOG, ignore_errors=True)

    def _publish(self, made: set[str]) -> bool:
        commits = sorted(each for each in made if each.startswith(LOG) and each.endswith(".json"))
        for path in commits:
            if not self._fs.publish(f"{self._output}/{path}", (self._local / path).read_bytes()):
                return False
        # Checkpoints only make reading faster: a missing or late one does no harm.
        for path in sorted(each for each in made if each.startswith(LOG)):
            if path not in commits:
                self._fs.replace(f"{self._output}/{path}", (self._local / path).read_bytes())
        return True

    def _files(self) -> set[str]:
        return {
            str(each.relative_to(self._local))
            for each in self._local.rglob("*")
            if each.is_file() and not each.name.startswith(".")
        }
