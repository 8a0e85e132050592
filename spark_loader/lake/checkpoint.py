"""Checkpoints of a load: plan and offsets per mapper. JSON, versioned, for people to read.

    OUTPUT/_delta_log/…                              the table's log; see `table.py`
    OUTPUT/topic=…/date=…/hour=…/….parquet           its files
    OUTPUT/_zkbroker/lock, locks/TOPIC               see `locks.py`
    OUTPUT/_zkbroker/runs/000012/plan.json           written before the first mapper starts
    OUTPUT/_zkbroker/runs/000012/offsets/00003.json  written by mapper 3 when its files are durable
    OUTPUT/_zkbroker/runs/000012/staging/…           JSON, raw and quarantine files until then
    OUTPUT/_zkbroker/quarantine/…                    records without an event time

Invariants. A run exists once its plan does, and counts once a commit of the table names it. A plan
and a commit appear whole, and never change. A topic has at most one run that is planned and does
not count yet; it is resumed with identical ranges. When a run is given up, its plan is removed
last.
"""

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from spark_loader.errors import AlteredCheckpoint, CheckpointError
from spark_loader.json_codec import from_json, to_json
from spark_loader.lake.ledger import DataFile, Entry, MapperOffsets, Plan
from spark_loader.lake.table import LakeTable
from spark_loader.lake.table_files import RESTORE, STATE
from spark_loader.reading.positions import partition_numbers
from spark_loader.storage.files import LakeFileSystem, join
from spark_loader.storage.filesystems import output_path

T = TypeVar("T")

_TRIES = 20
VERSIONS = {"plan": 1, "offsets": 2}


class Checkpoints:
    """The checkpoint files of one output directory, and its table.

    Args:
        filesystem: where it lies.
        output: the directory.
        table: format of the table, where there has to be one; see `LakeTable`.
    """

    def __init__(self, filesystem: LakeFileSystem, output: str, table: str = "") -> None:
        self.filesystem = filesystem
        self.output = output_path(output)
        self.table = LakeTable(filesystem, self.output, table, self.open_runs)

    def path(self, *parts: str) -> str:
        """Return the path of something in the state directory."""
        return join(self.output, STATE, *parts)

    # Plans

    def run_numbers(self) -> list[int]:
        """Return the runs that were planned, in order."""
        names = self.filesystem.names(self.path("runs"))
        return [int(name) for name in names if name.isdecimal()]

    def plan(self, run: int) -> Plan:
        return self._read(self.path("runs", _run(run), "plan.json"), "plan", Plan)

    def write_plan(self, plan: Plan) -> Plan:
        """Write a plan, under another number if its own is taken, and return it as written.

        Raises:
            CheckpointError: other loads of the same output take numbers faster than this one.
        """
        for _ in range(_TRIES):
            path = self.path("runs", _run(plan.run), "plan.json")
            if self.filesystem.publish(path, _encode("plan", to_json(plan))):
                return plan
            plan = replace(plan, run=self.next_run())
        raise CheckpointError(f"{path} was written by another load meanwhile; run it again")

    def open_runs(self, latest: Entry | None) -> list[int]:
        """Return the runs that were planned and do not count by an entry, in order."""
        return [
            run
            for run in self.run_numbers()
            if (latest is None or not latest.counts(run)) and self.is_planned(run)
        ]

    def unfinished(self, topics: Collection[str] | None = None) -> Plan | None:
        """Return the first plan of a run that does not count yet, if there is one.

        Args:
            topics: only a plan for one of these.
        """
        for plan in self.open_plans():
            if topics is None or not plan.topics.isdisjoint(topics):
                return plan
        return None

    def open_plans(self) -> list[Plan]:
        """Return the plans of runs that do not count yet, in order.

        There is one plan for each topic, its last. If earlier ones do not count either, the table
        was lost, which the files that they wrote show.
        """
        found: list[Plan] = []
        topics: set[str] = set()
        for run in reversed(self.open_runs(self.table.latest())):
            try:
                plan = self.plan(run)
            except AlteredCheckpoint:
                if self.is_planned(run):
                    raise
                # Another process gave it up a moment ago.
                continue
            if plan.topics.isdisjoint(topics):
                found.append(plan)
                topics |= plan.topics
        return found[::-1]

    def done_so_far(self, plan: Plan) -> Iterator[MapperOffsets]:
        """Yield the results of those mappers of a run that have finished."""
        for mapper in range(len(plan.mappers)):
            done = self.mapper_offsets(plan.run, mapper)
            if done is not None:
                yield done

    def under_way(self) -> set[str]:
        """Return the data files of mappers that finished in runs that do not count yet."""
        return {
            each
            for plan in self.open_plans()
            for done in self.done_so_far(plan)
            for each in [each.path for each in done.tabled] + [each.path for each in done.files]
        }

    def give_up(self, plan: Plan) -> None:
        """Remove a run's files, then its plan; no trace of the run is left."""
        for done in self.done_so_far(plan):
            for table_file in done.tabled:
                self.filesystem.delete(join(self.output, table_file.path))
            for each in (*done.files, *done.quarantined):
                for path in (each.staged, each.path):
                    self.filesystem.delete(join(self.output, path))
            self.forget_mapper(plan.run, done.mapper)
        self.clear_staging(plan.run)
        self.filesystem.delete(self.path("runs", _run(plan.run), "plan.json"))

    def counted(self) -> int:
        """Return the highest number of a run that counts, 0 for none."""
        latest = self.table.latest()
        return latest.last if latest is not None else 0

    def is_planned(self, run: int) -> bool:
        """Return whether a run has a plan."""
        return self.filesystem.size(self.path("runs", _run(run), "plan.json")) is not None

    # Offsets of mappers

    def offsets_path(self, run: int, mapper: int) -> str:
        return self.path("runs", _run(run), "offsets", f"{mapper:05d}.json")

    def mapper_offsets(self, run: int, mapper: int) -> MapperOffsets | None:
        """Return a mapper's result, or None when it has not finished."""
        path = self.offsets_path(run, mapper)
        if self.filesystem.size(path) is None:
            return None
        return self._read(path, "offsets", MapperOffsets)

    def write_mapper_offsets(self, done: MapperOffsets) -> bool:
        """Write a mapper's offsets; False when another attempt has written them already."""
        nexts = partition_numbers({each.source: each.until for each in done.ranges})
        content = {**to_json(done), "next_offsets": nexts}
        path = self.offsets_path(done.run, done.mapper)
        return self.filesystem.publish(path, _encode("offsets", content))

    def forget_mapper(self, run: int, mapper: int) -> None:
        """Remove a mapper's offsets, so that it runs again."""
        self.filesystem.delete(self.offsets_path(run, mapper))

    def staging(self, run: int) -> str:
        """Return a run's staging directory, below the output: files beside the table wait there."""
        return join(STATE, "runs", _run(run), "staging")

    def staged_names(self, run: int) -> list[str]:
        """Return the names of files left in a run's staging directory."""
        return self.filesystem.names(join(self.output, self.staging(run)))

    def unstage(self, files: Iterable[DataFile]) -> None:
        """Move staged files to their places; it can be repeated."""
        for each in files:
            self.filesystem.rename(join(self.output, each.staged), join(self.output, each.path))

    def clear_staging(self, run: int) -> None:
        """Remove staged files of a run's attempts that do not count."""
        for name in self.staged_names(run):
            self.filesystem.delete(join(self.output, self.staging(run), name))

    def next_run(self) -> int:
        """Return the number for a new run."""
        return max([0, *self.run_numbers(), self.counted()]) + 1

    def _read(self, path: str, name: str, kind: type[T]) -> T:
        try:
            found = json.loads(self.filesystem.read(path))
        except FileNotFoundError:
            raise AlteredCheckpoint(f"{path} does not exist. {RESTORE}") from None
        except ValueError as error:
            raise AlteredCheckpoint(f"{path} is damaged ({error}). {RESTORE}") from None
        if not isinstance(found, dict) or found.get("format") != f"zkbroker-load-{name}":
            raise AlteredCheckpoint(f"{path} is not a {name} of a load. {RESTORE}")
        version = VERSIONS[name]
        if found.get("version") != version:
            raise CheckpointError(
                f"{path} has version {found.get('version')}; this release reads version {version}"
            )
        try:
            return from_json(kind, found)
        except ValueError as error:
            raise AlteredCheckpoint(f"{path} is damaged ({error}). {RESTORE}") from None


def _run(run: int) -> str:
    return f"{run:06d}"


def _encode(name: str, content: dict[str, Any]) -> bytes:
    document = {"format": f"zkbroker-load-{name}", "version": VERSIONS[name], **content}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
