"""A mirror: streams of any number of sources, one producer, and their reports.

    with Mirror(MirrorConfig.load("mirror.properties")) as mirror:
        mirror.wait()

Invariant: it runs until `close`, or until an error that retries do not cure. `wait` then raises the
    error, and nothing after it was committed.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self, TypeVar

from zkbroker.client.list_offsets import LATEST_TIME
from zkbroker.errors import ClientError, ConfigError, ZkbrokerError
from zkbroker.measures import Family, lag_families
from zkbroker.mirror.batches import BatchMaker
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.generations import open_source, open_target
from zkbroker.mirror.handlers import load, message_handler
from zkbroker.mirror.loop_guard import PathMarker
from zkbroker.mirror.offset_syncs import sync_message
from zkbroker.mirror.positions import Positions
from zkbroker.mirror.routes import Routes
from zkbroker.mirror.source_cluster import MirrorSource
from zkbroker.mirror.source_config import SourceConfig
from zkbroker.mirror.source_streams import CatchUp, SourceStreams, TopicStatus, lag_of
from zkbroker.mirror.sources import CoordinatorSource, Source, ZooKeeperGroupSource
from zkbroker.mirror.tracker import Place
from zkbroker.mirror.transactions import MirrorTransactions
from zkbroker.mirror.worker import Worker, passes
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

T = TypeVar("T")

_STATUS_S = 60.0
_START_AGAIN_S = 0.5
_TICK_S = 0.2
_CLOSE_S = 10.0


class Mirror:
    """Mirrors sources into a target; the constructor connects.

    Args:
        config: settings.
        runtime: `threads`, `gevent` or a `Runtime`.

    Raises:
        ConfigError: settings do not fit each other, or the clusters.
        ZkbrokerError: a cluster cannot be reached.
    """

    role = "mirror"

    def __init__(self, config: MirrorConfig, *, runtime: str | Runtime = "threads") -> None:
        self.config = config
        self._runtime = get_runtime(runtime)
        self._ended = self._runtime.event()
        self._stop = self._runtime.event()
        self._error: BaseException | None = None
        self._closed = False
        self._sides: list[SourceStreams] = []
        handle = (
            message_handler(config.message_handler, config.message_handler_args)
            if config.message_handler
            else None
        )
        listener = (
            load("rebalance.listener", config.rebalance_listener, config.rebalance_listener_args)
            if config.rebalance_listener
            else None
        )
        self._start_by = time.monotonic() + config.start_timeout_ms / 1000
        self._target = self._patiently(lambda: open_target(config, self._runtime))
        try:
            if config.writes_paths and self._target.magic < 2:
                logger.warning("the target's format has no headers: no paths are written")
            for source in config.sources:
                self._sides.append(self._patiently(partial(self._connect, source)))
            for side in self._sides:
                for number in range(config.num_streams):
                    make = partial(self._worker, side, number, handle, listener)
                    side.workers.append(self._patiently(make))
        except BaseException:
            self.close(0)
            raise
        self._upkeep = self._runtime.spawn(self._run_upkeep, name="mirror-upkeep")

    def _connect(self, config: SourceConfig) -> SourceStreams:
        source = open_source(config, self._runtime)
        try:
            self._check_distinct(source)
            return SourceStreams(source, Routes(self.config, source, self._target))
        except BaseException:
            source.close()
            raise

    def _patiently(self, make: Callable[[], T]) -> T:
        """Make an object that needs a cluster; retry while the cluster may come back."""
        while True:
            try:
                return make()
            except (ZkbrokerError, OSError) as error:
                if not passes(error) or time.monotonic() >= self._start_by:
                    raise
                logger.warning("not started yet, trying again error=%s", error)
            self._runtime.sleep(_START_AGAIN_S)

    def _check_distinct(self, source: MirrorSource) -> None:
        own = source.identity()
        if (
            own is not None
            and own == self._target.identity()
            and not self.config.prefix(source.config)
        ):
            raise ConfigError(
                f"source {source.config.label} is the target itself: its topics would be mirrored "
                "into themselves; give a topic prefix, or another target"
            )

    def _worker(self, side: SourceStreams, number: int, handle: Any, listener: Any) -> Worker:
        config, source = self.config, side.source.config
        kind = CoordinatorSource if source.by_coordinator else ZooKeeperGroupSource

        return Worker(
            f"{source.label}-{number}",
            config,
            routes=side.routes,
            target=self._target,
            make_source=partial(
                kind, config, source, number, listener=listener, runtime=self._runtime
            ),
            maker=BatchMaker(
                config,
                source=side.source,
                routes=side.routes,
                target=self._target,
                marker=PathMarker(source.name, config.target_name) if config.writes_paths else None,
                handle=handle,
            ),
            runtime=self._runtime,
            on_failure=self._fail,
            on_syncs=partial(self._write_syncs, source.label),
            make_step=partial(self._exactly_once, side) if config.exactly_once else None,
        )

    def _exactly_once(
        self, side: SourceStreams, source: Callable[[], Source]
    ) -> MirrorTransactions:
        config = self.config
        name = config.exactly_once_name(side.source.config)
        self._target.have(config.exactly_once_topic, {"cleanup.policy": "compact"})

        return MirrorTransactions(
            source,
            make_producer=lambda key: self._target.transactional_producer(
                f"{name}-{key[0]}-{key[1]}"
            ),
            positions=Positions(
                self._target.cluster, config.exactly_once_topic, name, self._runtime
            ),
            end_of=lambda key: side.source.offsets([key], LATEST_TIME)[key],
            runtime=self._runtime,
            timeout_s=config.flush_timeout_ms / 1000,
        )

    # -- the end

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; return False on a time-out.

        Raises:
            ZkbrokerError: the error that ended the mirror.
        """
        ended = self._ended.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return ended

    @property
    def failed(self) -> BaseException | None:
        """The error that ended the mirror, if any."""
        return self._error

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            logger.error("mirror ends without a commit error=%s", error)
        for worker in self._workers():
            worker.fail()
        self._ended.set()

    def close(self, timeout_s: float | None = None) -> None:
        """Flush, commit, leave the groups; may be called twice.

        Args:
            timeout_s: how long; by default the flush time-out and some seconds.
        """
        if self._closed:
            return
        self._closed = True
        self._stop.set()
        flush_s = self.config.flush_timeout_ms / 1000
        limit_s = flush_s * 2 + _CLOSE_S if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        for worker in self._workers():
            worker.stop()
        for worker in self._workers():
            if not worker.join(max(0.1, deadline - time.monotonic())):
                logger.warning("stream still runs mirror=%s", worker.name)
        try:
            # Messages without an answer in time are mirrored again.
            self._target.close(0.0 if self._error else max(0.1, deadline - time.monotonic()))
        except ClientError as error:
            logger.warning("producer closed error=%s", error)
        for side in self._sides:
            side.close()
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- reports

    def _workers(self) -> list[Worker]:
        return [worker for side in self._sides for worker in side.workers]

    @property
    def client_id(self) -> str:
        """The client id of its requests."""
        return self._target.settings.client_id

    def status(self) -> list[TopicStatus]:
        """Return counts and lag of each topic."""
        return [each for side in self._sides for each in side.status()]

    def metrics(self) -> dict[str, int]:
        """Return counts since the start, the lag, and the bytes in flight."""
        workers = self._workers()
        counts = [worker.counts for worker in workers]
        status = self.status()
        return {
            "messages": sum(each.messages for each in status),
            "bytes": sum(each.bytes for each in status),
            "lag": sum(each.lag for each in status),
            "open_bytes": sum(worker.tracker.open_bytes for worker in workers),
            "stored_batches": sum(each.stored_batches for each in counts),
            "encoded_batches": sum(each.encoded_batches for each in counts),
            "dropped_messages": sum(each.dropped_messages for each in counts),
            "looped_messages": sum(each.looped_messages for each in counts),
            "failures": sum(worker.failures for worker in workers),
        }

    def measures(self) -> Iterator[Family]:
        """Yield the measures for `zkbroker.monitoring`."""
        status = self.status()
        for bean, attribute in (("MessagesPerSec", "messages"), ("BytesPerSec", "bytes")):
            family = Family(bean, labels=("source", "topic"))
            family.samples += [
                ((each.source, each.topic), getattr(each, attribute)) for each in status
            ]
            yield family
        lag: Counter[PartitionKey] = Counter()
        for side in self._sides:
            # It adds: several sources may have a topic of one name.
            lag.update({key: n for worker in side.workers for key, n in lag_of(worker).items()})
        yield from lag_families(lag)
        metrics = self.metrics()
        yield Family.single("DroppedMessagesPerSec", metrics["dropped_messages"])
        yield Family.single("LoopedMessagesPerSec", metrics["looped_messages"])
        yield Family.single("FailuresPerSec", metrics["failures"])
        yield Family.single("OpenBytes", metrics["open_bytes"])

    def _run_upkeep(self) -> None:
        """Log the progress once a minute, and synchronize topics."""
        now = time.monotonic()
        reported_at, reported = now, self.metrics()
        topics_at = now + self.config.topics_interval_ms / 1000
        while not self._stop.wait(_TICK_S):
            now = time.monotonic()
            if now - reported_at >= _STATUS_S:
                metrics = self.metrics()
                logger.info(
                    "mirrored messages_per_s=%.0f bytes_per_s=%.0f lag=%d open_bytes=%d "
                    "dropped=%d failures=%d",
                    (metrics["messages"] - reported["messages"]) / (now - reported_at),
                    (metrics["bytes"] - reported["bytes"]) / (now - reported_at),
                    metrics["lag"],
                    metrics["open_bytes"],
                    metrics["dropped_messages"],
                    metrics["failures"],
                )
                reported_at, reported = now, metrics
            if now >= topics_at and self.config.identity_partitions and self.config.follow_settings:
                for side in self._sides:
                    side.routes.follow()
                topics_at = time.monotonic() + self.config.topics_interval_ms / 1000

    def _write_syncs(self, source: str, found: list[tuple[PartitionKey, int, Place]]) -> None:
        topic = self.config.offset_syncs_topic
        if not topic or not found or not self.config.identity_partitions:
            return
        try:
            self._target.have(topic)
            for key, offset, place in found:
                self._target.producer.send(sync_message(topic, source, key, offset, place))
        except ZkbrokerError as error:
            logger.warning("offset syncs not written topic=%s error=%s", topic, error)

    # -- until caught up

    def ends(self) -> "CatchUp":
        """Read the present ends of the sources."""
        return CatchUp(self._sides, self.config)
