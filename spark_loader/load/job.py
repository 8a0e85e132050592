"""The load. It may be run as often as you like: each record counts once.

    lock topics ─▶ check the directory ─▶ runs, one or as many as the time allows; see `run.py`

Invariant: one load at a time works on a topic in a directory, and none goes on from a damaged one.
Spark is started only when there is something to load.
"""

import dataclasses
import logging
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from spark_loader.lake.adopt import adopt
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.integrity import needs_adoption, require_whole
from spark_loader.lake.locks import alone, beginning, loading
from spark_loader.lake.recover import recover
from spark_loader.load.options import LoadOptions
from spark_loader.load.planning import wanted_topics
from spark_loader.load.progress import Callback, Progress
from spark_loader.load.result import LoadResult
from spark_loader.load.run import Run
from spark_loader.reading.access import Access, NetworkAccess
from spark_loader.reading.generations import check_connect
from spark_loader.reading.resolve import SourceCluster
from spark_loader.session import SparkWhenNeeded, interruptible_session
from spark_loader.storage.files import LakeFileSystem
from spark_loader.storage.filesystems import filesystem_for, is_local, is_s3

logger = logging.getLogger(__name__)

_FIRST_ROUND_RECORDS = 200_000


class Loader:
    """Loads topics into a directory with Spark.

    Args:
        options: of the load; or give the fields of `LoadOptions` as keywords.
        progress: called with a `Progress` as the load gets on.
        master: Spark master, when `run` is given no session.
        spark_conf: more Spark properties for that session.
        storage: settings of `s3://`, beside those of the environment (`AWS_…`).
        access: how the cluster is reached.
        filesystem: of the output directory; chosen by its scheme if None.

    Example:
        ```python
        Loader(
            zookeeper="127.0.0.1:2181",
            topics=["page-views"],
            output="lake",
            event_time=EventTime.access_log(),
        ).run()
        ```
    """

    def __init__(
        self,
        options: LoadOptions | None = None,
        *,
        progress: Callback | None = None,
        master: str = "local[*,4]",
        spark_conf: dict[str, str] | None = None,
        storage: Mapping[str, str] | None = None,
        access: Access | None = None,
        filesystem: LakeFileSystem | None = None,
        **fields: Any,
    ) -> None:
        self.options = dataclasses.replace(options, **fields) if options else LoadOptions(**fields)
        self._progress = progress
        self._master = master
        self._spark_conf = spark_conf
        self._storage = storage
        self._access = access if access is not None else NetworkAccess()
        self._filesystem = filesystem

    def run(self, spark: Any = None) -> LoadResult:
        """Load new records.

        Args:
            spark: a session to use; if None, one is made and stopped again.

        Raises:
            LoadError: the load cannot go on; `DataLoss` names the exact offsets. The next run keeps
                the mappers that finished.
            ConfigError: an option cannot be used.
        """
        started = time.monotonic()
        with SparkWhenNeeded(self._start_spark, spark) as when_needed:
            # Connect first: unreachable brokers fail at once, while a Hadoop URI has to wait for
            # Spark.
            connect = self.options.connect()
            check_connect(connect)
            view = self._access.view(connect)
            try:
                result = self._locked(when_needed, view)
            finally:
                view.close()
        return replace(result, seconds=time.monotonic() - started)

    def _start_spark(self) -> Any:
        self._report(Progress(stage="start"))
        return interruptible_session(self._master, self._spark_conf)

    def _output_filesystem(self, spark: SparkWhenNeeded) -> LakeFileSystem:
        output = self.options.output
        # Hadoop's file systems are reached through Spark's Java.
        java = None if is_local(output) or is_s3(output) else spark.session()
        return filesystem_for(output, java, storage=self._storage)

    def _locked(self, spark: SparkWhenNeeded, view: SourceCluster) -> LoadResult:
        filesystem = self._filesystem or self._output_filesystem(spark)
        checkpoints = Checkpoints(filesystem, self.options.output, self.options.table)
        # Refused before hours of work, not after.
        checkpoints.table.exists()
        if self.options.adopt:
            with alone(checkpoints):
                if needs_adoption(checkpoints):
                    adopted = adopt(checkpoints)
                    logger.warning("lake adopted run=%d %s", adopted.run, adopted.note)
        with ExitStack() as stack:
            with beginning(checkpoints):
                require_whole(checkpoints)
                recover(checkpoints)
                topics = wanted_topics(self.options, view)
                locked = {*topics, *_unfinished_topics(checkpoints, topics)}
                stack.enter_context(loading(checkpoints, locked))
            options = replace(self.options, topics=topics, whitelist="", blacklist="")
            run = Run(spark, checkpoints, view, self._access, self._report)
            return self._rounds(options, run, spark)

    def _rounds(self, options: LoadOptions, run: Run, spark: SparkWhenNeeded) -> LoadResult:
        """Run once, or round by round until the time is over."""
        seconds = options.max_seconds
        if seconds is None:
            return run.load(options)
        deadline = time.monotonic() + seconds
        budget = options.max_records
        result = LoadResult()
        size = _FIRST_ROUND_RECORDS
        while True:
            began, waited = time.monotonic(), spark.seconds
            most = size if budget is None else min(size, budget)
            latest = run.load(replace(options, max_records=most))
            result = result.then(latest)
            now = time.monotonic()
            # The limit is for loading: the start of Spark is not counted.
            waited = spark.seconds - waited
            deadline += waited
            if budget is not None:
                budget -= sum(each.size for each in latest.ranges)
            if (
                latest.lag == 0
                or not latest.ranges
                or now >= deadline
                or (budget is not None and budget <= 0)
            ):
                return result
            # In Kafka 0.7 offsets are bytes, so rounds are limited by bytes.
            loaded = sum(each.size for each in latest.ranges)
            rate = loaded / max(0.001, now - began - waited)
            size = max(1, int(min(rate * (deadline - now) * 0.8, size * 4)))

    def _report(self, progress: Progress) -> None:
        if self._progress is not None:
            self._progress(progress)


def _unfinished_topics(checkpoints: Checkpoints, topics: Collection[str]) -> set[str]:
    """Return the topics of the stopped runs that a load of these topics resumes."""
    found = set(topics)
    plans = checkpoints.open_plans()
    # The topics of one plan may lead to another plan: n passes reach all n.
    for _ in plans:
        found.update(*(plan.topics for plan in plans if not plan.topics.isdisjoint(found)))
    return found
