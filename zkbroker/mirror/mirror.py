"""A mirror: streams of any number of sources, one producer, and what is told of them.

    with Mirror(MirrorConfig.load("mirror.properties")) as mirror:
        mirror.wait()

Invariant: it runs until `close`, or until something that trying again does not mend; then `wait`
raises that, and nothing was committed behind it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from zkbroker.admin import coordinator_groups, zk_groups
from zkbroker.client import Cluster
from zkbroker.client.list_offsets import EARLIEST_TIME, LATEST_TIME
from zkbroker.client.metadata_source import ask
from zkbroker.client.resolve_offsets import resolve_or_end
from zkbroker.config.shared_options import READ_COMMITTED
from zkbroker.consumer.legacy07 import Cluster07
from zkbroker.errors import ClientError, ConfigError, ZkbrokerError
from zkbroker.measures import Family, lag_families
from zkbroker.mirror.config import MirrorConfig, SourceConfig
from zkbroker.mirror.handlers import load, message_handler
from zkbroker.mirror.offset_syncs import sync_message
from zkbroker.mirror.paths import PathMarker
from zkbroker.mirror.positions import Positions
from zkbroker.mirror.routes import Routes
from zkbroker.mirror.sources import (
    CoordinatorSource,
    OnRelease,
    Source,
    ZooKeeperGroupSource,
    source_cluster,
    topic_filter,
)
from zkbroker.mirror.target import Target
from zkbroker.mirror.tracker import Place
from zkbroker.mirror.transactions import MirrorTransactions
from zkbroker.mirror.worker import Worker, passes
from zkbroker.producer import Producer
from zkbroker.protocol import ApiKey
from zkbroker.registry.legacy07_groups import committed_positions
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ZkSession

logger = logging.getLogger(__name__)

T = TypeVar("T")

_STATUS_S = 60.0
_START_AGAIN_S = 0.5
_TICK_S = 0.2
_OFFSETS_TIMEOUT_S = 30.0
_CLUSTER_ID_VERSION = 2
_CLOSE_S = 10.0


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """One topic of one source as it stands."""

    source: str
    topic: str
    messages: int
    bytes: int
    lag: int


class _SourceSide:
    """What belongs to one source."""

    def __init__(self, config: SourceConfig, cluster: Cluster, routes: Routes) -> None:
        self.config = config
        self.cluster = cluster
        self.routes = routes
        self.workers: list[Worker] = []


class Mirror:
    """Mirrors sources into a target; connects when it is made.

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
        self._sides: list[_SourceSide] = []
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
        self._target = self._patiently(lambda: Target(config, self._runtime))
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

    def _connect(self, source: SourceConfig) -> _SourceSide:
        cluster = source_cluster(source, self._runtime)
        try:
            self._check_distinct(source, cluster)
            return _SourceSide(source, cluster, Routes(self.config, source, cluster, self._target))
        except BaseException:
            cluster.close()
            raise

    def _patiently(self, make: Callable[[], T]) -> T:
        """Make something that needs a cluster, again while it may come back."""
        while True:
            try:
                return make()
            except (ZkbrokerError, OSError) as error:
                if not passes(error) or time.monotonic() >= self._start_by:
                    raise
                logger.warning("not started yet, tried again error=%s", error)
            self._runtime.sleep(_START_AGAIN_S)

    def _check_distinct(self, source: SourceConfig, cluster: Cluster) -> None:
        if isinstance(cluster, Cluster07):
            # A target is of a later generation.
            return
        ids = {_cluster_id(cluster), _cluster_id(self._target.cluster)}
        if len(ids) == 1 and None not in ids and not self.config.prefix(source):
            raise ConfigError(
                f"source {source.label} is the target itself: its topics would be mirrored into "
                "themselves; give a topic prefix, or another target"
            )

    def _worker(self, side: _SourceSide, number: int, handle: Any, listener: Any) -> Worker:
        config, source = self.config, side.config
        kind = CoordinatorSource if source.by_coordinator else ZooKeeperGroupSource

        def make(on_release: OnRelease, on_lost: OnRelease) -> Source:
            return kind(
                config,
                source,
                number,
                on_release=on_release,
                on_lost=on_lost,
                listener=listener,
                runtime=self._runtime,
            )

        def syncs(found: list[tuple[PartitionKey, int, Place]]) -> None:
            self._write_syncs(source.label, found)

        return Worker(
            f"{source.label}-{number}",
            config,
            routes=side.routes,
            target=self._target,
            make_source=make,
            marker=PathMarker(source.name, config.target_name) if config.writes_paths else None,
            handle=handle,
            legacy07=source.legacy07,
            runtime=self._runtime,
            on_failure=self._fail,
            on_syncs=syncs,
            make_step=partial(self._exactly_once, side) if config.exactly_once else None,
        )

    def _exactly_once(self, side: _SourceSide, source: Callable[[], Source]) -> MirrorTransactions:
        config = self.config
        name = config.exactly_once_name(side.config)
        self._target.have(config.exactly_once_topic, {"cleanup.policy": "compact"})

        def make_producer(key: PartitionKey) -> Producer:
            return self._target.transactional_producer(f"{name}-{key[0]}-{key[1]}")

        def end_of(key: PartitionKey) -> int:
            return _offsets(side.cluster, [key], LATEST_TIME)[key]

        return MirrorTransactions(
            source,
            make_producer=make_producer,
            positions=Positions(
                self._target.cluster, config.exactly_once_topic, name, self._runtime
            ),
            end_of=end_of,
            runtime=self._runtime,
            timeout_s=config.flush_timeout_ms / 1000,
        )

    # -- the end

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; False when it has not come in time.

        Raises:
            ZkbrokerError: what ended the mirror.
        """
        ended = self._ended.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return ended

    @property
    def failed(self) -> BaseException | None:
        """What ended the mirror, if anything did."""
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
            timeout_s: how long; the flush time-out and some seconds by default.
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
            # What is still open was not answered in time, and is mirrored again.
            self._target.close(0.0 if self._error else max(0.1, deadline - time.monotonic()))
        except ClientError as error:
            logger.warning("producer closed error=%s", error)
        for side in self._sides:
            side.routes.close()
            side.cluster.close()
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- what is told

    def _workers(self) -> list[Worker]:
        return [worker for side in self._sides for worker in side.workers]

    @property
    def client_id(self) -> str:
        """The id that its requests carry."""
        return self._target.settings.client_id

    def status(self) -> list[TopicStatus]:
        """Return what was mirrored of each topic, and how far behind it is."""
        found: list[TopicStatus] = []
        for side in self._sides:
            lag: dict[str, int] = {}
            counts: dict[str, list[int]] = {}
            for worker in side.workers:
                for (topic, _), behind in _lag(worker).items():
                    lag[topic] = lag.get(topic, 0) + behind
                for index, family in enumerate(worker.counts.topics.families()):
                    for (topic,), value in family.samples:
                        assert isinstance(value, int)
                        counts.setdefault(topic, [0, 0])[index] += value
            found += [
                TopicStatus(side.config.label, topic, sent[0], sent[1], lag.get(topic, 0))
                for topic in sorted({*lag, *counts})
                for sent in (counts.get(topic, [0, 0]),)
                if not side.routes.skips(topic)
            ]
        return found

    def metrics(self) -> dict[str, int]:
        """Return counts since the start, lag, and what is under way."""
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
        """Yield what `zkbroker.monitoring` shows."""
        status = self.status()
        for bean, attribute in (("MessagesPerSec", "messages"), ("BytesPerSec", "bytes")):
            family = Family(bean, labels=("source", "topic"))
            family.samples += [
                ((each.source, each.topic), getattr(each, attribute)) for each in status
            ]
            yield family
        lag: dict[PartitionKey, int] = {}
        for worker in self._workers():
            lag.update(_lag(worker))
        yield from lag_families(lag)
        metrics = self.metrics()
        yield Family.single("DroppedMessagesPerSec", metrics["dropped_messages"])
        yield Family.single("LoopedMessagesPerSec", metrics["looped_messages"])
        yield Family.single("FailuresPerSec", metrics["failures"])
        yield Family.single("OpenBytes", metrics["open_bytes"])

    def _run_upkeep(self) -> None:
        """Tell once a minute how it goes, and bring topics in line."""
        now = time.monotonic()
        told_at, told = now, self.metrics()
        topics_at = now + self.config.topics_interval_ms / 1000
        while not self._stop.wait(_TICK_S):
            now = time.monotonic()
            if now - told_at >= _STATUS_S:
                metrics = self.metrics()
                logger.info(
                    "mirrored messages_per_s=%.0f bytes_per_s=%.0f lag=%d open_bytes=%d "
                    "dropped=%d failures=%d",
                    (metrics["messages"] - told["messages"]) / (now - told_at),
                    (metrics["bytes"] - told["bytes"]) / (now - told_at),
                    metrics["lag"],
                    metrics["open_bytes"],
                    metrics["dropped_messages"],
                    metrics["failures"],
                )
                told_at, told = now, metrics
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
        """Look where the sources end now."""
        return CatchUp(self._sides, self.config)


def _lag(worker: Worker) -> Mapping[PartitionKey, int]:
    try:
        return worker.source.lag()
    except ZkbrokerError:
        return {}  # it has ended


def _positions(worker: Worker) -> Mapping[PartitionKey, int]:
    try:
        return worker.source.positions()
    except ZkbrokerError:
        return {}  # it has ended, or begins anew


class CatchUp:
    """Whether what the sources held at a moment has arrived.

    Args:
        sides: the sources.
        config: of the mirror.
    """

    def __init__(self, sides: list[_SourceSide], config: MirrorConfig) -> None:
        self._sides = sides
        self._ends: list[Mapping[PartitionKey, int]] = []
        self._from: list[dict[PartitionKey, int]] = []
        chosen = topic_filter(config)
        for side in sides:
            topics = [
                topic
                for topic in side.cluster.topics()
                if chosen.matches(topic) and not side.routes.skips(topic)
            ]
            keys = [
                (topic, each.partition)
                for topic in topics
                for each in side.cluster.partitions(topic)
            ]
            isolation = side.config.properties.get("isolation.level", READ_COMMITTED)
            committed_only = isolation == READ_COMMITTED
            ends = _offsets(side.cluster, keys, LATEST_TIME, committed_only=committed_only)
            starts = _offsets(side.cluster, keys, EARLIEST_TIME)
            committed = group_offsets(side.config, side.cluster)
            self._ends.append(ends)
            self._from.append(
                {key: max(start, committed.get(key, 0)) for key, start in starts.items()}
            )
        self.total = sum(
            max(0, end - begun[key])
            for ends, begun in zip(self._ends, self._from, strict=True)
            for key, end in ends.items()
        )
        """How many offsets there were to go."""

    def left(self) -> int:
        """Return how many offsets are still to arrive; 0 when all have."""
        left = 0
        for side, ends, begun in zip(self._sides, self._ends, self._from, strict=True):
            reached = dict(begun)
            for worker in side.workers:
                for key, position in _positions(worker).items():
                    reached[key] = max(position, reached.get(key, 0))
            behind = self._behind(side, ends, reached)
            if not behind and not all(worker.idle for worker in side.workers):
                behind = 1
            left += behind
        return left

    @staticmethod
    def _behind(
        side: _SourceSide, ends: Mapping[PartitionKey, int], reached: dict[PartitionKey, int]
    ) -> int:
        held = {key for worker in side.workers for key in _positions(worker)}
        if any(end > reached.get(key, 0) for key, end in ends.items() if key not in held):
            # Other mirrors of the group may have had the rest: see what they committed.
            for key, offset in group_offsets(side.config, side.cluster).items():
                reached[key] = max(offset, reached.get(key, 0))
        return sum(max(0, end - reached.get(key, 0)) for key, end in ends.items())


def _offsets(
    cluster: Cluster,
    keys: list[PartitionKey],
    time_ms: int,
    *,
    committed_only: bool = False,
) -> Mapping[PartitionKey, int]:
    """Return where partitions of a source begin or end, in offsets of its generation."""
    if isinstance(cluster, Cluster07):
        return {key: cluster.offset(*key, time_ms) or 0 for key in keys}
    return resolve_or_end(
        cluster,
        dict.fromkeys(keys, time_ms),
        read_committed=committed_only,
        timeout_s=_OFFSETS_TIMEOUT_S,
    )


def group_offsets(
    source: SourceConfig, cluster: Cluster, group: str = ""
) -> dict[PartitionKey, int]:
    """Return what a group of a source has committed.

    Args:
        source: which cluster.
        cluster: its brokers.
        group: its name; the mirror's own without it.

    Raises:
        ZkbrokerError: it cannot be read.
    """
    name = group or source.group_id
    if source.legacy07:
        with ZkSession(source.zookeeper) as session:
            return committed_positions(session, name)
    found: dict[PartitionKey, int] = {}
    if source.zookeeper:
        with ZkSession(source.zookeeper) as session:
            found = zk_groups.committed(session, name)
    if source.by_coordinator or not found:
        connection = cluster.any_connection()
        if ApiKey.DESCRIBE_GROUPS in connection.versions:
            kept = dict(coordinator_groups.describe(cluster, name).offsets)
            found = {key: max(kept.get(key, 0), found.get(key, 0)) for key in {*kept, *found}}
    return found


def _cluster_id(cluster: Cluster) -> str | None:
    connection = cluster.any_connection()
    if connection.best_version(ApiKey.METADATA) < _CLUSTER_ID_VERSION:
        return None
    return ask(connection, []).cluster_id
