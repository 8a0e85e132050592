"""One run of a load: plan, mappers, publication.

    plan (or the unfinished one) ─▶ mappers ─▶ commit of the table ─▶ group
    written ahead                   offsets    at once                offsets

Invariant: if a run stops between any two steps, the next load resumes it with the same ranges and
    keeps the mappers that finished; every offset counts exactly once.

A partition whose data cannot be loaded (lost, damaged, topic deleted) keeps its position and does
not delay others: the run is published without it, then the error is raised.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from spark_loader.causes import cause_of
from spark_loader.errors import LoadError, QuarantineLimit
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.evolution import require_fitting
from spark_loader.lake.ledger import Entry, MapperOffsets, Plan, now_text, total_bytes
from spark_loader.lake.table_files import schema_from_texts
from spark_loader.load.mapper import MapperOutcome, MapperTask, run_mapper
from spark_loader.load.options import LoadOptions
from spark_loader.load.planning import make_plan
from spark_loader.load.progress import Callback, Progress, ProgressListener
from spark_loader.load.result import LoadResult, merge_ranges
from spark_loader.reading.access import Access
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.resolve import SourceCluster
from spark_loader.reading.splits import OffsetRange
from spark_loader.session import SparkWhenNeeded
from spark_loader.sink.partition import SinkOptions
from spark_loader.storage.files import join
from zkbroker.errors import ZkbrokerError

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Run:
    """One run, from its plan to its commit."""

    spark: SparkWhenNeeded
    checkpoints: Checkpoints
    view: SourceCluster
    access: Access
    report: Callback

    def load(self, options: LoadOptions) -> LoadResult:
        """Make a plan or resume the unfinished one; run the mappers that are left; publish."""
        self.report(Progress(stage="plan"))
        latest = self.checkpoints.table.latest()
        if latest is not None:
            # Repeated in case the last run was stopped just before. Only these topics: another load
            # may have committed later offsets of others.
            mine = {tp: at for tp, at in latest.positions.items() if tp.topic in options.topics}
            self._commit_group(options.group, mine)
        require_fitting(self.checkpoints, options.columns)
        troubles: list[LoadError] = []
        plan = self.checkpoints.unfinished(options.topics)
        resumed = plan is not None
        if plan is None:
            plan, held = make_plan(self.checkpoints.next_run(), options, self.view, latest)
            troubles.extend(held)
            if plan is None:
                raise_first(troubles)
                self.report(Progress(stage="done"))
                return LoadResult()
            plan = self.checkpoints.write_plan(plan)
        adopted = self._finished(plan)
        logger.info(
            "load planned run=%d mappers=%d done=%d resumed=%s",
            plan.run,
            len(plan.mappers),
            len(adopted),
            resumed,
        )
        counted, outcomes = self._map(plan, options, set(adopted))
        self.report(counted)
        found = [
            trouble
            for each in sorted(outcomes, key=lambda outcome: outcome.mapper)
            for trouble in each.troubles
        ]
        for trouble in found:
            if isinstance(trouble, QuarantineLimit):
                # The fault is in the options, not in a partition: nothing is published.
                raise trouble
        troubles.extend(found)
        entry = self._publish(plan, options, outcomes)
        paths = [*entry.checksums, *(each.path for each in entry.files)]
        result = LoadResult(
            run=plan.run,
            rows=entry.rows,
            bytes=entry.size_bytes,
            files=tuple(join(self.checkpoints.output, each) for each in paths),
            ranges=entry.ranges,
            gaps=entry.gaps,
            quarantined=sum(each.rows for each in entry.quarantined),
            resumed=resumed,
            adopted=len(adopted),
            lag=_lag(plan, entry.positions),
        )
        self.report(replace(counted, stage="done", rows=entry.rows, lag=result.lag))
        raise_first(troubles, result)
        return result

    def _finished(self, plan: Plan) -> list[int]:
        """Return the mappers whose offsets are there and whose files are whole."""
        done = []
        for mapper in range(len(plan.mappers)):
            offsets = self.checkpoints.mapper_offsets(plan.run, mapper)
            if offsets is None:
                continue
            if self._are_there(offsets):
                done.append(mapper)
            else:
                logger.warning("mapper files are gone run=%d mapper=%d", plan.run, mapper)
                self.checkpoints.forget_mapper(plan.run, mapper)
        return done

    def _are_there(self, done: MapperOffsets) -> bool:
        output, filesystem = self.checkpoints.output, self.checkpoints.filesystem
        for table_file in done.tabled:
            if filesystem.size(join(output, table_file.path)) != table_file.size_bytes:
                return False
        for each in [*done.files, *done.quarantined]:
            sizes = (filesystem.size(join(output, path)) for path in (each.staged, each.path))
            if each.size_bytes not in sizes:
                return False
        return True

    def _map(
        self, plan: Plan, options: LoadOptions, done: set[int]
    ) -> tuple[Progress, list[MapperOutcome]]:
        """Run the mappers that are not done."""
        outcomes: list[MapperOutcome] = []
        left = [mapper for mapper in range(len(plan.mappers)) if mapper not in done]
        planned = sum(each.size for each in plan.ranges)
        lag = _lag(plan, plan.positions)
        context = self.spark.session().sparkContext if left else None
        host = "127.0.0.1"
        if context is not None:
            host = context.getConf().get("spark.driver.host", host)
        listener = ProgressListener(
            host, plan.run, planned, lag, len(plan.mappers), self.report, len(done)
        )
        listener.start()
        try:
            if context is not None:
                tasks = self._tasks(plan, left, options, listener.address)
                context.setJobDescription(f"zkbroker-load run {plan.run}")
                outcomes = context.parallelize(tasks, len(tasks)).map(run_mapper).collect()
            return listener.progress("publish"), outcomes
        except ZkbrokerError:
            raise
        except Exception as error:
            raise LoadError(f"a mapper failed: {cause_of(error)}") from error
        finally:
            listener.close()

    def _tasks(
        self, plan: Plan, mappers: list[int], options: LoadOptions, report_to: tuple[str, int]
    ) -> list[MapperTask]:
        connect = replace(
            options.connect(),
            zookeeper=None,
            bootstrap=self.view.bootstrap(),
            read_committed=plan.read_committed,
        )
        sink = SinkOptions(
            format=options.format,
            event_time=options.event_time,
            columns=options.columns,
            fallback=options.fallback,
            load_time_ms=int(datetime.fromisoformat(plan.created).timestamp() * 1000),
            target_bytes=options.target_bytes,
            compression=options.compression,
            max_quarantined=options.max_quarantined,
        )
        return [
            MapperTask(
                run=plan.run,
                mapper=mapper,
                ranges=plan.mappers[mapper],
                policies=tuple(options.policy(each.source) for each in plan.mappers[mapper]),
                output=self.checkpoints.output,
                filesystem=self.checkpoints.filesystem,
                access=self.access,
                connect=connect,
                sink=sink,
                headers=options.headers,
                keep_damaged=options.keep_damaged,
                report_to=report_to,
            )
            for mapper in mappers
        ]

    def _publish(
        self,
        plan: Plan,
        options: LoadOptions,
        outcomes: Sequence[MapperOutcome],
    ) -> Entry:
        """Commit the files, the offsets and the ledger to the table, then the group's offsets.

        If a mapper failed, only its partitions' ranges before the failed ones are published.
        """
        in_trouble = {each.mapper for each in outcomes if each.troubles}
        written: dict[int, MapperOffsets] = {}
        for mapper in range(len(plan.mappers)):
            offsets = self.checkpoints.mapper_offsets(plan.run, mapper)
            if offsets is not None:
                written[mapper] = offsets
            elif mapper not in in_trouble:
                raise LoadError(
                    f"mapper {mapper} of run {plan.run} left no offsets; run the load again"
                )
        ranges_done = {mapper: each.ranges for mapper, each in written.items()}
        done = [written[mapper] for mapper in published_mappers(plan, ranges_done)]
        tabled = [each for offsets in done for each in offsets.tabled]
        files = [each for offsets in done for each in offsets.files]
        quarantined = [each for offsets in done for each in offsets.quarantined]
        self.checkpoints.unstage([*files, *quarantined])
        ranges = merge_ranges(each for offsets in done for each in offsets.ranges)
        positions = dict(plan.positions)
        for gap in plan.gaps:
            positions[gap.source] = max(positions[gap.source], gap.until)
        positions.update((each.source, each.until) for each in ranges)
        entry = Entry(
            run=plan.run,
            created=now_text(),
            kind="load",
            ranges=tuple(ranges),
            checksums={each.path: each.sha256 for each in tabled},
            files=tuple(files),
            quarantined=tuple(quarantined),
            gaps=(*plan.gaps, *(gap for offsets in done for gap in offsets.gaps)),
            absent=tuple(gap for offsets in done for gap in offsets.absent),
            rows=sum(offsets.rows for offsets in done),
            size_bytes=total_bytes(tabled, files),
            positions=positions,
            log_starts=plan.log_starts,
            log_ends=plan.log_ends,
            topics_created_ms=plan.topics_created_ms,
            group=options.group,
            zones=(options.event_time.zone,),
        )
        schema = schema_from_texts(offsets.schema for offsets in done)
        try:
            self.checkpoints.table.commit(entry, tabled, schema, since=plan.positions)
        except LoadError:
            latest = self.checkpoints.table.latest()
            if latest is None or not latest.counts(plan.run):
                # Another run was published first, from the same position or with a column of
                # another type: this run's files can never count. If this very run was published,
                # by another load or by a commit whose answer was lost, they do.
                self.checkpoints.give_up(plan)
            raise
        try:
            self._commit_group(options.group, positions)
        except ZkbrokerError as error:
            raise LoadError(
                f"run {plan.run} is published with {entry.rows} rows, but the offsets of group "
                f"{options.group} could not be committed; the next run commits them: {error}"
            ) from error
        # Every mapper has its offsets, so no attempt still under way can count.
        self.checkpoints.clear_staging(plan.run)
        return entry

    def _commit_group(self, group: str, positions: dict[TopicPartition, int]) -> None:
        if group and positions:
            self.view.commit_group_offsets(group, positions)


def published_mappers(plan: Plan, done: Mapping[int, tuple[OffsetRange, ...]]) -> list[int]:
    """Return the mappers whose ranges are wholly before every failed one of their partitions.

    Args:
        plan: of the run.
        done: the ranges that mappers wrote; all other ranges of the plan have failed.
    """
    cuts: dict[TopicPartition, int] = {}
    for mapper, ranges in enumerate(plan.mappers):
        for each in set(ranges) - set(done.get(mapper, ())):
            cuts[each.source] = min(each.start, cuts.get(each.source, each.start))
    return [
        mapper
        for mapper, ranges in sorted(done.items())
        if all(each.until <= cuts.get(each.source, each.until) for each in ranges)
    ]


def raise_first(troubles: list[LoadError], result: LoadResult | None = None) -> None:
    """Raise the first error of a partition, with the texts of all; return if there is none."""
    if not troubles:
        return
    text = "\n".join(dict.fromkeys(map(str, troubles)))
    if result is not None and result.ranges:
        text += f"\nAll else was loaded: {result.rows} rows, run {result.run}"
    raise type(troubles[0])(text)


def _lag(plan: Plan, positions: dict[TopicPartition, int]) -> int:
    return sum(max(0, end - positions.get(tp, end)) for tp, end in plan.log_ends.items())
