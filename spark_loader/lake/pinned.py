"""The table at one version, for those that compare its parts.

Invariant: files, positions and ledger are those of the same commit, whatever is published since.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from spark_loader.lake.commits import numbered_commits
from spark_loader.lake.ledger import Entry
from spark_loader.lake.table import LakeTable
from spark_loader.storage.files import LakeFileSystem


class PinnedTable(LakeTable):
    """The table in one output directory as it was when this was made; for reading only."""

    def __init__(self, filesystem: LakeFileSystem, output: str) -> None:
        super().__init__(filesystem, output)
        # `LakeTable` keeps one that it brings up to date; this one stays as it is.
        self._pinned, self._opened = super().delta(), None

    def delta(self, version: int | None = None) -> Any:
        """Return the library's `DeltaTable`, None when there was none."""
        return self._pinned if version is None else super().delta(version)

    def latest(self) -> Entry | None:
        """Return the entry that holds the positions of this version."""
        entries = self.entries()
        return entries[-1] if entries else None

    def _commits(self) -> Iterator[Mapping[str, Any]]:
        last = -1 if self._pinned is None else self._pinned.version()
        for commit in reversed(numbered_commits(super().delta)):
            if commit["version"] <= last:
                yield commit
