"""The table of a lake, whatever its format: its commits decide which files and offsets count.

    table      files by reference, `topic=…/date=…/hour=…/….parquet`; next offsets of partitions
    content    of each commit, the entry of the ledger (`ledger.Entry`); a large one lies in
               `_zkbroker/ledger/RUN-SHA256.json` and the commit names it

Invariants. Files, offsets and ledger change in one commit or not at all. A commit is made on top of
the last run: that run's changes to other partitions are kept, and if it moved a partition that the
commit goes on from, the commit is refused and nothing of it counts.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_loader.errors import AlteredCheckpoint, CheckpointError, LoadError
from spark_loader.json_codec import from_json, to_json
from spark_loader.lake.formats import open_table
from spark_loader.lake.ledger import Entry, TableFile, now_text
from spark_loader.lake.table_files import (
    PARTITIONED,
    RESTORE,
    STATE,
    LiveFile,
    base_schema,
    concerned,
)
from spark_loader.lake.table_format import CONTENT, Change, CommitLost, Hours, Snapshot, TableFormat
from spark_loader.reading.positions import TopicPartition
from spark_loader.sink.data_formats import in_table
from spark_loader.storage.files import LakeFileSystem, join

_INLINE_BYTES = 32 * 1024
# How many commits are read from the end; some without a run may come before the wanted one.
_LOOK_BACK = (1, 20, None)
_TRIES = 20


class LakeTable:
    """The table in one output directory.

    Args:
        filesystem: where it lies.
        output: the directory.
        kind: `delta` or `iceberg`; empty for the directory's own, which is Delta if it is new.
        planned: returns the runs that are planned and do not count by an entry.
    """

    def __init__(
        self,
        filesystem: LakeFileSystem,
        output: str,
        kind: str = "",
        planned: Callable[[Entry | None], Sequence[int]] = lambda latest: (),
    ) -> None:
        self._fs = filesystem
        self._kind = kind
        self._planned = planned
        self.output = output
        self._opened: TableFormat | None = None
        self._is_ours = False
        # By version: one load looks for entries many times.
        self._latest: tuple[int, Entry | None] | None = None

    @property
    def format(self) -> TableFormat:
        """The format that reads and writes it.

        Raises:
            LoadError: its format is not the requested one, or a library is missing.
        """
        if self._opened is None:
            self._opened = open_table(self._fs, self.output, self._kind)
        return self._opened

    # Reading

    def exists(self) -> bool:
        """Return whether there is a table."""
        return self.format.exists()

    def newest(self) -> Snapshot | None:
        """Return the table as it is; None when there is none.

        Raises:
            AlteredCheckpoint: it cannot be read.
            LoadError: it was not made by a load.
        """
        newest = self.format.newest()
        if newest is not None and not self._is_ours:
            self._require_ours(newest)
        return newest

    def _require_ours(self, snapshot: Snapshot) -> None:
        """Refuse a table that something else made: its rows would be mixed with those of loads."""
        if not set(PARTITIONED) <= set(snapshot.schema().names):
            raise LoadError(
                f"{self.output} holds a table that zkbroker-load did not make: it is not "
                f"partitioned by {', '.join(PARTITIONED)}. Name another directory"
            )
        self._is_ours = True

    def latest(self) -> Entry | None:
        """Return the entry that holds the current positions."""
        newest = self.newest()
        if newest is None:
            return None
        if self._latest is None or self._latest[0] != newest.version:
            self._latest = newest.version, self._last_entry()
        return self._latest[1]

    def _last_entry(self) -> Entry | None:
        for limit in _LOOK_BACK:
            for commit in self.format.last_commits(limit) if limit else self._commits():
                if _number(commit):
                    return self._entry(commit)
        return None

    def entries(self) -> list[Entry]:
        """Return every entry with a run since the beginning, oldest first."""
        found = [self._entry(commit) for commit in self._commits() if _number(commit)][::-1]
        return found if not found else [e for e in found if e.run >= found[-1].beginning]

    def entry(self, run: int) -> Entry:
        """Return the entry of a run; raise LoadError when there is none."""
        return self._entry(self._commit_of(run))

    def version_of(self, run: int) -> int:
        """Return the version of the table that a run made; raise LoadError when there is none."""
        return int(self._commit_of(run)["version"])

    def checksums(self) -> dict[str, str]:
        """Return the SHA-256 of files by path, those that no longer count included."""
        found: dict[str, str] = {}
        for commit in self._commits()[::-1]:
            if CONTENT in commit:
                found.update(self._entry(commit).checksums)
        return found

    def files(self, version: int | None = None) -> list[LiveFile]:
        """Return the files of the table, in the order of their paths."""
        found = self.newest() if version is None else self.format.at(version)
        return [] if found is None else found.files()

    def positions(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the next offsets from the table's metadata, not from the ledger."""
        found = self.newest()
        return {each: None if found is None else found.position(each) for each in sources}

    def _commits(self) -> list[Mapping[str, Any]]:
        """Return every commit, the newest first."""
        return self.format.commits()

    def _commit_of(self, run: int) -> Mapping[str, Any]:
        commits = self._commits()[::-1]
        for commit in commits:
            if _number(commit) == run:
                return commit
        there = [number for number in map(_number, commits) if number]
        raise LoadError(f"run {run} is not in the table; there are {there or 'none'}")

    def _entry(self, commit: Mapping[str, Any]) -> Entry:
        content = commit[CONTENT]
        path = content.get("ledger")
        try:
            if path is not None:
                data = self._fs.read(join(self.output, path))
                if hashlib.sha256(data).hexdigest() != content["sha256"]:
                    raise AlteredCheckpoint(f"{path} was altered: its checksum does not match")
                content = json.loads(data)
            return _of_any_release(from_json(Entry, content))
        except FileNotFoundError:
            raise AlteredCheckpoint(f"{path} does not exist. {RESTORE}") from None
        except ValueError as error:
            version = commit.get("version")
            raise AlteredCheckpoint(
                f"the ledger in version {version} of {self.output} is damaged ({error}). {RESTORE}"
            ) from None

    # Writing

    def forget(self) -> None:
        """Forget what was read: the table's log was moved away, and versions begin again."""
        self.format.forget()
        self._latest = None

    def commit(
        self,
        entry: Entry,
        files: Sequence[TableFile] = (),
        schema: pa.Schema | None = None,
        removed: Sequence[LiveFile] = (),
        since: Mapping[TopicPartition, int] | None = None,
    ) -> Entry:
        """Publish a run: its files, offsets and entry count from here on.

        Args:
            entry: its entry; positions of other partitions, `beginning` and `beside` are filled in.
            files: new files of the table.
            schema: the columns of those files; new ones become columns of the table.
            removed: files of the table that no longer count.
            since: the positions that it goes on from; not compared if None.

        Returns:
            the entry as it was committed.

        Raises:
            CheckpointError: another run moved one of those positions meanwhile.
            LoadError: a column of the files has another type in the table.
        """
        schema = schema if schema is not None else base_schema()
        for _ in range(_TRIES):
            if not self.exists():
                self.format.begin(schema)
            base = self.newest()
            # Read after the snapshot: a later run than either refuses the commit.
            latest = self.latest()
            complete = self._continued(entry, latest, since)
            change = self._change(complete, latest, schema, files, removed)
            try:
                self.format.commit(base, change)
            except CommitLost:
                continue
            return complete
        raise self._too_slow()

    def delete(
        self,
        entry: Entry,
        cuts: Mapping[TopicPartition, int],
        since: Mapping[TopicPartition, int] | None = None,
        *,
        published: bool = False,
    ) -> None:
        """Take rows out of the table, and publish the entry, in one commit.

        Args:
            entry: its entry.
            cuts: rows at or beyond an offset of their partition are removed.
            since: as for `commit`.
            published: whether the entry is published already; nothing is removed if a later run
                counts.
        """
        for _ in range(_TRIES):
            base = self.newest()
            assert base is not None
            # Read after the snapshot, and not read again: a later run may load the same offsets.
            latest = self.latest()
            if published and (latest is None or latest.run != entry.run):
                # A load takes rows back before it begins, so those that are there now count.
                return None
            wanted = _without_run("rewind") if published else entry
            complete = self._continued(wanted, latest, since)
            change = self._change(complete, latest, base_schema())
            try:
                return self.format.delete(base, change, cuts, concerned(base.files(), cuts))
            except CommitLost:
                continue
        raise self._too_slow()

    def compact(self, hours: Hours, target_bytes: int, small: Sequence[LiveFile]) -> None:
        """Let the library merge small files of each hour into files of about a size.

        Raises:
            CheckpointError: files were changed meanwhile.
        """
        change = self._change(_without_run("optimize"), None, base_schema())
        try:
            self.format.compact(change, hours, target_bytes, small)
        except CommitLost as error:
            raise CheckpointError(
                f"{self.output}: another writer changed the same files meanwhile; run it again "
                f"({error})"
            ) from None

    def _continued(
        self, entry: Entry, latest: Entry | None, since: Mapping[TopicPartition, int] | None
    ) -> Entry:
        # Plans are read after the entry, so that a run planned before it is seen.
        planned = [run for run in self._planned(latest) if run != entry.run]
        return continued(entry, latest, since, planned)

    def _too_slow(self) -> CheckpointError:
        return CheckpointError(
            f"{self.output}: other writers were faster {_TRIES} times, so nothing was "
            "published; run it again"
        )

    def _change(
        self,
        entry: Entry,
        latest: Entry | None,
        schema: pa.Schema,
        files: Sequence[TableFile] = (),
        removed: Sequence[LiveFile] = (),
    ) -> Change:
        before = latest.positions if latest is not None else {}
        moved = {
            source: offset
            for source, offset in entry.positions.items()
            if before.get(source) != offset
        }
        return Change(
            run=entry.run,
            content=self._content(entry),
            schema=schema,
            moved=moved,
            files=files,
            removed=removed,
        )

    def _content(self, entry: Entry) -> dict[str, Any]:
        content = to_json(entry)
        data = json.dumps(content, ensure_ascii=False).encode()
        if len(data) <= _INLINE_BYTES:
            return dict(content)
        digest = hashlib.sha256(data).hexdigest()
        path = join(STATE, "ledger", f"{entry.run:06d}-{digest}.json")
        self._fs.publish(join(self.output, path), data)
        return {"run": entry.run, "kind": entry.kind, "ledger": path, "sha256": digest}


def continued(
    entry: Entry,
    latest: Entry | None,
    since: Mapping[TopicPartition, int] | None = None,
    planned: Sequence[int] = (),
) -> Entry:
    """Return an entry with the fields that follow from the one before it.

    Args:
        entry: without those fields.
        latest: the one before; None for the first.
        since: the positions that it goes on from.
        planned: other runs that are planned and do not count yet.

    Raises:
        CheckpointError: the positions have changed since those that it goes on from.
    """
    own = len(entry.files) + len(entry.quarantined)
    if not entry.run:
        return entry
    if entry.kind == "adopt":
        return replace(entry, beside=own, settled=entry.run)
    before = latest if latest is not None else Entry(run=0, kind="", created="")
    if before.counts(entry.run):
        raise CheckpointError(
            f"run {entry.run} was already published; this attempt published nothing"
        )
    # A lower number without a plan will never be a run.
    top = max(before.last, entry.run)
    settled = min([top, *(run - 1 for run in planned)])
    counted = {*before.counted, entry.run}
    entry = replace(
        entry, settled=settled, counted=tuple(sorted(run for run in counted if run > settled))
    )
    if latest is None:
        return replace(entry, beside=own)
    entry = replace(entry, zones=tuple(sorted({*latest.zones, *entry.zones})))
    for source, position in (since or {}).items():
        if latest.positions.get(source, position) != position:
            raise CheckpointError(
                f"{source} was moved from offset {position} to {latest.positions[source]} by run "
                f"{latest.run} meanwhile, so nothing of this was published; run it again"
            )
    gone = sum(not in_table(path) for path in entry.withdrawn)
    return replace(
        entry,
        positions={**latest.positions, **entry.positions},
        topics_created_ms=(
            {**latest.topics_created_ms, **entry.topics_created_ms}
            if entry.kind == "load"
            else entry.topics_created_ms
        ),
        beginning=latest.beginning,
        beside=latest.beside + own - gone,
    )


def _of_any_release(entry: Entry) -> Entry:
    """Return an entry of any release; in older ones runs counted one after the other."""
    known = entry.settled or entry.counted or not entry.run
    return entry if known else replace(entry, settled=entry.run)


def _without_run(kind: str) -> Entry:
    return Entry(run=0, kind=kind, created=now_text())


def _number(commit: Mapping[str, Any]) -> int:
    """Return the run of a commit, 0 for none."""
    return int(commit.get(CONTENT, {}).get("run", 0))
