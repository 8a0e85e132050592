"""The Delta table of a lake: its commits are what counts.

    add, remove            files of the table, by reference: `topic=…/date=…/hour=…/….parquet`
    txn zkbroker:TOPIC-N   the next offset to load of a partition
    commitInfo.zkbroker    the entry of the ledger (`ledger.Entry`); a large one lies in
                           `_zkbroker/ledger/RUN-SHA256.json` and the commit names it

Invariants. Files, offsets and ledger change in one commit or not at all. Two loads of the same
partition that go on from the same commit collide on its `txn`: the later one fails and nothing of
it counts. No commit is ever cleaned away, so that each run can be read again as it was.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_loader.errors import AlteredCheckpoint, CheckpointError, LoadError
from spark_loader.json_codec import from_json, to_json
from spark_loader.lake.commits import numbered_commits
from spark_loader.lake.ledger import Entry, TableFile, now_text
from spark_loader.lake.table_files import (
    PARTITIONED,
    LiveFile,
    add_actions,
    application,
    base_schema,
    live_files,
    remove_actions,
)
from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.files import LakeFileSystem, join
from spark_loader.storage.table_log import LOG, TableLog

STATE = "_zkbroker"
RESTORE = "Put it back from a backup, or take the data files over as a new beginning: --adopt"

_KEY = "zkbroker"
_INLINE_BYTES = 32 * 1024
# Histories are read from their end; entries without a run may lie before the one looked for.
_LOOK_BACK = (1, 20, None)
_CONFIGURATION = {"delta.enableExpiredLogCleanup": "false"}


class LakeTable:
    """The table in one output directory."""

    def __init__(self, filesystem: LakeFileSystem, output: str) -> None:
        self._fs = filesystem
        self.output = output
        self._log: TableLog | None = None
        # For reading only: a large table takes its time to open, and little to catch up.
        self._opened: Any = None

    # Reading

    def exists(self) -> bool:
        """Return whether there is a log of a table."""
        found = bool(self._fs.names(join(self.output, LOG)))
        if not found:
            self._opened = None
        return found

    @property
    def is_direct(self) -> bool:
        """Whether the library works on the output directory itself."""
        return self._log_of().uri == self.output

    def delta(self, version: int | None = None) -> Any:
        """Return the library's `DeltaTable`, None when there is none.

        Raises:
            AlteredCheckpoint: its log cannot be read.
        """
        if not self.exists():
            return None
        self._log_of().pull()
        if version is not None:
            return self._open(version)
        self._opened = self._open(known=self._opened)
        return self._opened

    def _open(self, version: int | None = None, known: Any = None) -> Any:
        library = require_library()
        log = self._log_of()
        try:
            if known is not None:
                known.update_incremental()
                return known
            return library.DeltaTable(log.uri, version=version, storage_options=log.options or None)
        except (library.exceptions.DeltaError, library.exceptions.TableNotFoundError) as error:
            raise AlteredCheckpoint(
                f"{join(self.output, LOG)}: {str(error).splitlines()[0]}. {RESTORE}"
            ) from None

    def latest(self) -> Entry | None:
        """Return the entry that holds the current positions."""
        table = self.delta()
        if table is None:
            return None
        for limit in _LOOK_BACK:
            for commit in table.history(limit):
                if _number(commit):
                    return self._entry(commit)
        return None

    def entries(self) -> list[Entry]:
        """Return every entry with a run since the beginning, oldest first."""
        found = [self._entry(commit) for commit in self._commits() if _number(commit)]
        return found if not found else [e for e in found if e.run >= found[-1].beginning]

    def entry(self, run: int) -> Entry:
        """Return the entry of a run; raise LoadError when there is none."""
        return self._entry(self._commit_of(run))

    def version_of(self, run: int) -> int:
        """Return the version of the table that a run made; raise LoadError when there is none."""
        return int(self._commit_of(run)["version"])

    def checksums(self) -> dict[str, str]:
        """Return the SHA-256 of files by path, of files that no longer count too."""
        found: dict[str, str] = {}
        for commit in self._commits():
            if _KEY in commit:
                found.update(self._entry(commit).checksums)
        return found

    def files(self, version: int | None = None) -> list[LiveFile]:
        """Return the files of the table, in the order of their paths."""
        table = self.delta(version)
        return [] if table is None else live_files(table)

    def positions(self, sources: Iterable[TopicPartition]) -> dict[TopicPartition, int | None]:
        """Return the next offsets as the table's application transactions say."""
        table = self.delta()
        return {
            each: None if table is None else table.transaction_version(application(each))
            for each in sources
        }

    def _commits(self) -> Iterator[Mapping[str, Any]]:
        yield from reversed(numbered_commits(self.delta))

    def _commit_of(self, run: int) -> Mapping[str, Any]:
        numbers = []
        for commit in self._commits():
            numbers.append(_number(commit))
            if numbers[-1] == run:
                return commit
        there = [number for number in numbers if number]
        raise LoadError(f"run {run} is not in the table; there are {there or 'none'}")

    def _entry(self, commit: Mapping[str, Any]) -> Entry:
        content = commit[_KEY]
        path = content.get("ledger")
        try:
            if path is not None:
                data = self._fs.read(join(self.output, path))
                if hashlib.sha256(data).hexdigest() != content["sha256"]:
                    raise AlteredCheckpoint(f"{path} was altered: its checksum is another")
                content = json.loads(data)
            return from_json(Entry, content)
        except FileNotFoundError:
            raise AlteredCheckpoint(f"{path} does not exist. {RESTORE}") from None
        except ValueError as error:
            version = commit.get("version")
            raise AlteredCheckpoint(
                f"the ledger in version {version} of {self.output} is damaged ({error}). {RESTORE}"
            ) from None

    # Writing

    def commit(
        self,
        entry: Entry,
        files: Sequence[TableFile] = (),
        schema: pa.Schema | None = None,
        removed: Sequence[LiveFile] = (),
    ) -> None:
        """Publish a run: its files, offsets and entry count from here on.

        Args:
            entry: what it says; `beginning` and `beside` are filled in.
            files: new files of the table.
            schema: the columns of those files; new ones become columns of the table.
            removed: files of the table that no longer count.

        Raises:
            CheckpointError: another load published the same partitions meanwhile.
        """
        library = require_library()
        schema = schema if schema is not None else base_schema()
        latest = self.latest() if self.exists() else None
        entry = _continued(entry, latest)
        properties = self._properties(entry, latest)
        self._create(schema)
        table = self._widened(schema)
        version = table.version()
        now_ms = int(time.time() * 1000)
        actions = [*add_actions(library, files, now_ms), *remove_actions(library, removed, now_ms)]

        def write() -> int:
            base = self._open(version)
            base.create_write_transaction(
                actions,
                "append",
                base.schema(),
                list(PARTITIONED),
                commit_properties=properties,
            )
            return int(self._newest(base))

        self._committed(write)

    def delete(self, entry: Entry | None, predicate: str, fetched: Iterable[LiveFile] = ()) -> None:
        """Take rows out of the table, and publish the entry, in one commit.

        Args:
            entry: what it says; None where it is published already.
            predicate: the rows, in SQL.
            fetched: files in which such rows may be.
        """
        latest = self.latest()
        assert latest is not None
        said = _continued(entry or _without_run("rewind"), latest)
        properties = self._properties(said, latest)

        def write() -> int:
            table = self._for_writing()
            before = table.version()
            self._log_of().fetch([each.path for each in fetched])
            table.delete(predicate, commit_properties=properties)
            if table.version() == before and entry is not None:
                # There is no such row: the entry counts all the same.
                table.create_write_transaction(
                    [],
                    "append",
                    table.schema(),
                    list(PARTITIONED),
                    commit_properties=properties,
                )
            return int(self._newest(table))

        self._committed(write)

    def rewrite(self, action: Callable[[Any, Any], None], fetched: Iterable[LiveFile] = ()) -> None:
        """Let the library replace files by others with the same rows.

        Args:
            action: called with the library's table and commit properties.
            fetched: the files that it may read.
        """
        library = require_library()
        content = to_json(_without_run("optimize"))
        properties = library.CommitProperties(custom_metadata={_KEY: content})

        def write() -> int:
            table = self._for_writing()
            self._log_of().fetch([each.path for each in fetched])
            action(table, properties)
            return int(self._newest(table))

        self._committed(write)

    def _committed(self, write: Callable[[], int]) -> None:
        library = require_library()
        try:
            self._log_of().commit(write)
        except library.exceptions.CommitFailedError as error:
            raise CheckpointError(
                f"{self.output}: another writer changed the same partitions or files meanwhile, so "
                f"nothing of this was published; run it again ({str(error).splitlines()[0]})"
            ) from None

    def _create(self, schema: pa.Schema) -> None:
        if self.exists():
            return
        library = require_library()
        fields = [*schema, *(pa.field(name, kind) for name, kind in PARTITIONED.items())]
        log = self._log_of()

        def write() -> int:
            library.DeltaTable.create(
                log.uri,
                schema=pa.schema(fields),
                partition_by=list(PARTITIONED),
                mode="ignore",
                configuration=_CONFIGURATION,
                storage_options=log.options or None,
            )
            return 0

        log.commit(write)

    def _widened(self, schema: pa.Schema) -> Any:
        """Return the table, after adding the columns that it lacks."""
        table = self.delta()
        known = {each.name: each for each in table.schema().fields}
        wanted = require_library().Schema.from_arrow(schema).fields
        for each in wanted:
            if each.name in known and known[each.name].type != each.type:
                raise LoadError(
                    f"column {each.name} is {each.type} in what was loaded and "
                    f"{known[each.name].type} in the table: give it another name"
                )
        missing = [each for each in wanted if each.name not in known]
        if not missing:
            return table

        def write() -> int:
            newest = self._for_writing()
            newest.alter.add_columns(missing)
            return int(self._newest(newest))

        self._committed(write)
        return self.delta()

    def _for_writing(self) -> Any:
        """Return the newest table, for one commit."""
        self._log_of().pull()
        return self._open()

    def _newest(self, table: Any) -> int:
        table.update_incremental()
        return int(table.version())

    def _log_of(self) -> TableLog:
        if self._log is None:
            self._log = self._fs.table_log(self.output)
        return self._log

    def _properties(self, entry: Entry, latest: Entry | None) -> Any:
        """Return the commit's properties: the entry, and the positions that it moves."""
        library = require_library()
        before = latest.positions if latest is not None else {}
        moved = {
            source: offset
            for source, offset in entry.positions.items()
            if before.get(source) != offset
        }
        now_ms = int(time.time() * 1000)
        return library.CommitProperties(
            custom_metadata={_KEY: self._content(entry)},
            app_transactions=[
                library.Transaction(application(source), offset, now_ms)
                for source, offset in sorted(moved.items())
            ],
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


def _continued(entry: Entry, latest: Entry | None) -> Entry:
    """Return an entry with what follows from the one before it."""
    own = len(entry.files) + len(entry.quarantined)
    if latest is None or not entry.run or entry.kind == "adopt":
        return replace(entry, beside=own)
    gone = sum(not path.endswith(".parquet") for path in entry.withdrawn)
    return replace(entry, beginning=latest.beginning, beside=latest.beside + own - gone)


def _without_run(kind: str) -> Entry:
    return Entry(run=0, kind=kind, created=now_text())


def _number(commit: Mapping[str, Any]) -> int:
    """Return the run of a commit, 0 for none."""
    return int(commit.get(_KEY, {}).get("run", 0))


def require_library() -> Any:
    """Return the Delta library, which drivers and readers need, and mappers do not.

    Raises:
        LoadError: it is not installed.
    """
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ModuleNotFoundError:
        raise LoadError(
            "the lake is a Delta table, written by a library: pip install 'zkbroker[lake]'"
        ) from None
    return deltalake
