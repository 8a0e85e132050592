"""The table at one version, for checks that compare its parts.

Invariant: files, positions and ledger are those of the same commit, whatever is published later.
"""

from collections.abc import Mapping
from typing import Any

from spark_loader.lake.ledger import Entry
from spark_loader.lake.table import LakeTable
from spark_loader.lake.table_format import Snapshot
from spark_loader.storage.files import LakeFileSystem


class PinnedTable(LakeTable):
    """The table in one output directory as it was when this object was made; for reading only."""

    def __init__(self, filesystem: LakeFileSystem, output: str) -> None:
        super().__init__(filesystem, output)
        found = super().newest()
        # A format may update the table that it opened last, so this one has a format of its own.
        self._pinned = None if found is None else self.format.at(found.version)

    def newest(self) -> Snapshot | None:
        """Return the table as it was; None when there was none."""
        return self._pinned

    def latest(self) -> Entry | None:
        """Return the entry that holds the positions of this version."""
        entries = self.entries()
        return entries[-1] if entries else None

    def _commits(self) -> list[Mapping[str, Any]]:
        found = super()._commits() if self._pinned is not None else []
        versions = [commit["version"] for commit in found]
        at = versions.index(self._pinned.version) if self._pinned is not None else 0
        return found[at:]
