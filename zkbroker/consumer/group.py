"""A consumer whose group is kept by a coordinator: `subscribe`, `poll`, `commit`.

    with GroupConsumer(GroupConsumerConfig(bootstrap_servers=("host:9092",), group_id="g")) as c:
        c.subscribe(["topic"])
        for message in c:
            ...

Invariants:
- One task at a time uses a consumer (`wakeup` and `close` apart); its own tasks only fetch ahead
  and keep the membership alive. Callbacks run in the task that polls.
- What a poll returned counts as processed at the next poll; only that is committed automatically.
- Nothing of a partition is returned after it was given up, and it is not given up before what was
  processed has been committed, unless the membership was lost: then another member may own it.
"""

import logging
import re
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TypeAlias

from zkbroker.config.consumer import FAIL, LARGEST, SMALLEST, ConsumerConfig
from zkbroker.config.group_consumer import EARLIEST, LATEST, NONE, GroupConsumerConfig
from zkbroker.consumer.assignors import (
    Assignor,
    ClusterPartitions,
    RangeAssignor,
    RoundRobinAssignor,
    TopicPartition,
)
from zkbroker.consumer.coordinator_link import CoordinatorLink
from zkbroker.consumer.fetchers import Fetchers
from zkbroker.consumer.group_membership import GroupMembership, Share
from zkbroker.consumer.group_offsets import Committed, GroupOffsets
from zkbroker.consumer.inbox import Inbox, Taken
from zkbroker.consumer.lookup import EARLIEST_TIME, LATEST_TIME
from zkbroker.consumer.messages import ConsumerClosed, Decoder, MessageAndMetadata, NotOwned
from zkbroker.consumer.partition import ConsumedPartition
from zkbroker.consumer.resolve import resolve_offsets, resolve_or_end
from zkbroker.consumer.sticky import StickyAssignor
from zkbroker.discovery import Cluster, StaticSource, ZooKeeperSource
from zkbroker.errors import (
    ClientError,
    ConfigError,
    ProtocolError,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from zkbroker.runtime import Runtime, get_runtime

logger = logging.getLogger(__name__)

BUILT_IN: Mapping[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
}
_RESET = {EARLIEST: SMALLEST, LATEST: LARGEST, NONE: FAIL}
_ITERATOR_POLL_S = 1.0
_POSITION_POLL_S = 0.02
_MAX_CHUNKS = 4

Offsets: TypeAlias = Mapping[TopicPartition, int | Committed]
OnCommit: TypeAlias = Callable[[Mapping[TopicPartition, Committed], Exception | None], object]


class RebalanceListener:
    """What a consumer is told of its partitions; override what is of interest.

    All of it is called from within `poll` (or `close`, `unsubscribe`), so it may commit and seek.
    """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """They are about to be given up: the last moment to commit."""

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """They are held now; nothing of them has been returned yet: the moment to seek."""

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """They are held by somebody else already; too late to commit."""
        self.on_partitions_revoked(partitions)


class GroupConsumer:
    """Consumes as a member of a group, or by itself after `assign`.

    Args:
        config: settings.
        runtime: `threads`, `gevent` or a `Runtime`.
        assignors: strategies beside the built-in ones, or in place of them; all of the names in
            `partition.assignment.strategy` are looked for here first, and strategies given here
            that are not named there come before those that are.
        key_decoder: turns the bytes of a key into an object; not called for null.
        value_decoder: the same for values.
        cluster: a started `Cluster` to use, which is not closed; made from the settings otherwise.

    Raises:
        ConfigError: a strategy is not known.
        ZkbrokerError: the cluster cannot be reached.
    """

    def __init__(
        self,
        config: GroupConsumerConfig,
        *,
        runtime: str | Runtime = "threads",
        assignors: Sequence[Assignor] = (),
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self._config = config
        self._runtime = get_runtime(runtime)
        self._assignors = _chosen(config.strategies, assignors)
        self._own_cluster = cluster is None
        self._cluster = cluster if cluster is not None else self._connect()
        self._news = self._runtime.event()
        self._metadata_changed = False
        self._unwatch = self._cluster.watch(self._note_metadata)
        self._metadata_due = 0.0
        self._fetch_config = _fetch_config(config)
        self._fetchers = Fetchers(self._cluster, self._fetch_config, self._runtime)
        self._inbox = Inbox(self._runtime, self._news.set, key_decoder, value_decoder)
        self._link = CoordinatorLink(
            self._cluster,
            config.group_id,
            runtime=self._runtime,
            backoff_ms=config.retry_backoff_ms,
        )
        self._offsets = GroupOffsets(config, self._link, self._news.set)
        self._membership: GroupMembership | None = None
        self._pending: Share | None = None
        self._share: Share | None = None
        self._listener = RebalanceListener()
        self._topics: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None
        self._partitions: dict[TopicPartition, ConsumedPartition] = {}
        self._paused: set[TopicPartition] = set()
        self._leftover: deque[Taken] = deque()
        self._commit_due = time.monotonic() + config.auto_commit_interval_ms / 1000
        self._last_automatic: dict[TopicPartition, int] = {}
        self._woken = False
        self._closed = False

    # -- what to consume

    def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str],
        listener: RebalanceListener | None = None,
    ) -> None:
        """Share topics with the other members of the group, in place of what was subscribed.

        Args:
            topics: names; or a pattern, as a compiled regular expression or as a text that begins
                with `^`, for all topics there are now or later.
            listener: told of partitions that come and go.

        Raises:
            ClientError: partitions were assigned by hand, or there is no group id.
        """
        self._check_open()
        if self._partitions and self._membership is None:
            raise ClientError("partitions are assigned by hand: call unsubscribe first")
        if not self._config.group_id:
            raise ClientError("subscribe needs a group.id")
        if listener is not None:
            self._listener = listener
        self._pattern = None
        if isinstance(topics, str) and topics.startswith("^"):
            self._pattern = re.compile(topics)
        elif isinstance(topics, re.Pattern):
            self._pattern = topics
        if self._pattern is not None:
            self._topics = self._matching(self._pattern)
        else:
            assert not isinstance(topics, re.Pattern)
            self._topics = frozenset([topics] if isinstance(topics, str) else topics)
        if self._membership is None:
            self._membership = GroupMembership(
                self._config,
                self._link,
                self._assignors,
                partitions_of=self._partitions_of,
                runtime=self._runtime,
                notify=self._news.set,
            )
        self._metadata_due = time.monotonic() + self._config.metadata_max_age_ms / 1000
        self._membership.subscribe(self._topics)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Consume these partitions, whatever a group does, in place of those before.

        Raises:
            ClientError: topics are subscribed.
        """
        self._check_open()
        if self._membership is not None:
            raise ClientError("topics are subscribed: call unsubscribe first")
        wanted = list(dict.fromkeys(partitions))
        for key in [key for key in self._partitions if key not in wanted]:
            self._partitions.pop(key).revoke()
        fresh = [key for key in wanted if key not in self._partitions]
        committed = self._offsets.fetch(fresh) if self._config.group_id else {}
        self._fetchers.start(self._open(fresh, committed))

    def unsubscribe(self) -> None:
        """Consume nothing any more; a member leaves its group."""
        self._check_open()
        self._drop_all()
        if self._membership is not None:
            self._membership.leave(self._config.request_timeout_ms / 1000)
            self._membership = None
        self._topics, self._pattern = frozenset(), None

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed."""
        return self._topics

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are held."""
        return set(self._partitions)

    @property
    def generation(self) -> int:
        """The generation in which they are held; -1 outside a group."""
        return self._share.generation if self._share is not None else -1

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave; empty outside a group."""
        return self._share.member_id if self._share is not None else ""

    # -- consuming

    def poll(
        self, timeout_s: float = 1.0, max_records: int | None = None
    ) -> list[MessageAndMetadata]:
        """Return messages, in order within each partition; none when none came in time.

        Args:
            timeout_s: how long to wait for the first.
            max_records: how many at most; `max.poll.records` by default.

        Raises:
            OffsetOutOfRange: an offset is not in the log, and `auto.offset.reset` is `none`.
            ProtocolError: a partition cannot be read on, or the group cannot be joined.
            ClientError: the same, for a reason of this client's.
        """
        if not self._leftover:
            self._fill(timeout_s, max_records or self._config.max_poll_records)
        messages: list[MessageAndMetadata] = []
        while self._leftover:
            taken = self._leftover.popleft()
            if not taken.stale:
                taken.progress.delivered = taken.end
                messages.extend(taken.messages)
        return messages

    def __iter__(self) -> Iterator[MessageAndMetadata]:
        """Yield messages for ever; a commit in between covers those that were yielded."""
        while not self._closed:
            while self._leftover:
                taken = self._leftover[0]
                if taken.stale or not taken.messages:
                    if not taken.stale:
                        taken.progress.delivered = taken.end
                    self._leftover.popleft()
                    continue
                message = taken.messages.popleft()
                taken.progress.delivered = message.offset
                yield message
            self._fill(_ITERATOR_POLL_S, self._config.max_poll_records)

    def wakeup(self) -> None:
        """Have the poll that is waiting, or the next one, return at once; from any task."""
        self._woken = True
        self._news.set()

    def pause(self, *partitions: TopicPartition) -> None:
        """Return nothing of these partitions until they are resumed; they stay held."""
        for key in partitions:
            self._held(key)
            self._paused.add(key)

    def resume(self, *partitions: TopicPartition) -> None:
        """Return messages of these partitions again."""
        self._paused.difference_update(partitions)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return set(self._paused)

    # -- where to consume

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at an offset.

        Raises:
            NotOwned: the partition is not held.
        """
        self._held((topic, partition)).seek(offset)
        self._fetchers.wake()

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go on at the start of the log; of all partitions held if none is named."""
        self._seek_to(EARLIEST_TIME, partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go on behind the last message; of all partitions held if none is named."""
        self._seek_to(LATEST_TIME, partitions)

    def position(self, topic: str, partition: int, timeout_s: float | None = None) -> int:
        """The offset of the next message that will be returned.

        Raises:
            NotOwned: the partition is not held.
            RequestTimedOut: it could not be found out in time.
        """
        held = self._held((topic, partition))
        seconds = self._config.request_timeout_ms / 1000 if timeout_s is None else timeout_s
        deadline = time.monotonic() + seconds
        while (position := held.position(in_hand=True)) is None:
            # the reset of a partition without an offset comes through the inbox
            self._leftover.extend(self._inbox.take(1, self._paused))
            for taken in list(self._leftover):
                if not taken.messages and not taken.stale:
                    taken.progress.delivered = taken.end
            if self._leftover and self._leftover[0].partition is held:
                first = self._leftover[0]
                return first.messages[0].offset if first.messages else first.end + 1
            if time.monotonic() > deadline:
                raise RequestTimedOut(f"the position of {topic}-{partition} is not known yet")
            self._runtime.sleep(_POSITION_POLL_S)
        return position

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """The offset of the first message at or after a time; None when there is none so late.

        Args:
            times: milliseconds for each partition.
        """
        return resolve_offsets(self._cluster, times)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offset of each partition."""
        return resolve_or_end(self._cluster, dict.fromkeys(partitions, EARLIEST_TIME))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the next message to be written to each partition."""
        return resolve_or_end(self._cluster, dict.fromkeys(partitions, LATEST_TIME))

    # -- committing

    def commit(self, offsets: Offsets | None = None, *, timeout_s: float | None = None) -> None:
        """Commit, and wait for the answer.

        Args:
            offsets: the next offset to consume of each partition, as a number or a `Committed`
                with metadata; of everything that was returned if not given.
            timeout_s: how long to try; the request time-out by default.

        Raises:
            CommitFailed: the partitions belong to another generation of the group by now.
            ProtocolError: refused, or the coordinator could not be reached in time.
        """
        self._offsets.commit(
            self._to_commit(offsets),
            self._share,
            self._config.request_timeout_ms / 1000 if timeout_s is None else timeout_s,
            self._fence,
        )

    def commit_async(
        self, offsets: Offsets | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Commit without waiting; tried once.

        Args:
            offsets: as of `commit`.
            on_commit: called with the offsets, and with the error if there was one, from within a
                later `poll`, `commit` or `close`.
        """
        self._offsets.commit_async(self._to_commit(offsets), self._share, on_commit, self._fence)

    def committed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Committed | None]:
        """What the group has committed; None where it has not."""
        found = self._offsets.fetch(list(partitions))
        return dict(found)

    # -- ending

    def close(self, timeout_s: float = 30.0) -> None:
        """Commit if that is automatic, leave the group, stop fetching; may be called twice."""
        if self._closed:
            return
        deadline = time.monotonic() + timeout_s
        try:
            self._drop_all()
        finally:
            self._closed = True
            self._news.set()
            if self._membership is not None:
                self._membership.leave(max(0.1, deadline - time.monotonic()))
            self._unwatch()
            self._fetchers.close(max(0.1, deadline - time.monotonic()))
            if self._own_cluster:
                self._cluster.close()

    def __enter__(self) -> "GroupConsumer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- inside: filling

    def _fill(self, timeout_s: float, limit: int) -> None:
        """Serve the membership, then wait for messages."""
        self._check_open()
        deadline = time.monotonic() + timeout_s
        for partition in self._partitions.values():
            partition.progress.processed = partition.progress.delivered
        while True:
            self._news.clear()
            self._offsets.report()
            self._serve_membership()
            self._look_at_metadata()
            self._commit_automatically()
            self._leftover.extend(self._inbox.take(limit, self._paused))
            if any(taken.messages for taken in self._leftover):
                self._fetchers.wake()
                return
            for taken in self._leftover:
                if not taken.stale:
                    taken.progress.delivered = taken.end
            if self._leftover:
                self._leftover.clear()
                self._fetchers.wake()
            left_s = deadline - time.monotonic()
            if self._woken or left_s <= 0 or self._closed:
                self._woken = False
                return
            self._news.wait(min(left_s, self._seconds_to_next_duty()))

    def _seconds_to_next_duty(self) -> float:
        due = self._metadata_due
        if self._config.enable_auto_commit:
            due = min(due, self._commit_due)
        return max(0.01, due - time.monotonic())

    def _serve_membership(self) -> None:
        membership = self._membership
        if membership is None:
            return
        membership.polled()
        error = membership.take_error()
        if error is not None:
            raise error
        if membership.ending:
            membership.take()
            self._pending = None
            self._release(lost=membership.lost)
            membership.released()
        self._pending = membership.take() or self._pending
        if self._pending is not None:
            self._hold(self._pending)
            self._pending = None

    def _hold(self, share: Share) -> None:
        committed = self._offsets.fetch(share.partitions)
        self._share = share
        self._last_automatic = {}
        opened = self._open(share.partitions, committed)
        self._listener.on_partitions_assigned(list(share.partitions))
        self._fetchers.start(opened)

    def _release(self, *, lost: bool) -> None:
        """Give up what is held; after a loss there is nothing left to save."""
        if self._share is None:
            return
        held = list(self._partitions)
        if lost:
            self._discard()
            self._listener.on_partitions_lost(held)
        else:
            if self._config.enable_auto_commit:
                self._commit_processed()
            self._listener.on_partitions_revoked(held)
            self._discard()
        self._share = None

    def _discard(self) -> None:
        for partition in self._partitions.values():
            partition.revoke()
        self._partitions.clear()
        self._paused.clear()
        self._leftover.clear()
        self._inbox.clear()

    def _drop_all(self) -> None:
        for partition in self._partitions.values():
            partition.progress.processed = partition.progress.delivered
        membership = self._membership
        lost = membership is not None and membership.lost
        if self._share is not None:
            self._release(lost=lost)
        elif self._partitions and self._config.enable_auto_commit and self._config.group_id:
            self._commit_processed()
        self._discard()
        self._offsets.report()

    def _open(
        self,
        keys: Iterable[TopicPartition],
        committed: Mapping[TopicPartition, Committed | None],
    ) -> list[ConsumedPartition]:
        opened = []
        for topic, number in keys:
            start = committed.get((topic, number))
            partition = ConsumedPartition(
                topic,
                number,
                self._inbox,
                self._runtime.lock(),
                self._config.max_partition_fetch_bytes,
                None if start is None else start.offset,
                _MAX_CHUNKS,
            )
            self._partitions[topic, number] = partition
            opened.append(partition)
        return opened

    # -- inside: committing

    def _commit_automatically(self) -> None:
        if not self._config.enable_auto_commit or not self._partitions or not self._config.group_id:
            return
        now = time.monotonic()
        if now < self._commit_due or self._offsets.busy:
            return
        self._commit_due = now + self._config.auto_commit_interval_ms / 1000
        processed = self._processed()
        if processed != self._last_automatic:
            self._last_automatic = processed
            self._offsets.commit_async(processed, self._share, self._note_commit, self._fence)

    def _note_commit(
        self, offsets: Mapping[TopicPartition, Committed], error: Exception | None
    ) -> None:
        if error is not None:
            self._last_automatic = {}
            logger.info("offsets not committed yet group=%s error=%s", self._config.group_id, error)

    def _commit_processed(self) -> None:
        """Commit before giving up; what cannot be committed is consumed again."""
        try:
            self.commit(self._processed(), timeout_s=self._config.session_timeout_ms / 1000)
        except (ProtocolError, ClientError) as error:
            logger.warning("offsets not committed group=%s error=%s", self._config.group_id, error)

    def _processed(self) -> dict[TopicPartition, int]:
        return _known({k: p.position(in_hand=False) for k, p in self._partitions.items()})

    def _to_commit(self, offsets: Offsets | None) -> dict[TopicPartition, Committed]:
        self._check_open()
        if not self._config.group_id:
            raise ClientError("commit needs a group.id")
        if offsets is None:
            offsets = _known({k: p.position(in_hand=True) for k, p in self._partitions.items()})
        return {
            key: value if isinstance(value, Committed) else Committed(value)
            for key, value in offsets.items()
        }

    def _fence(self) -> None:
        if self._membership is not None:
            self._membership.fence()

    # -- inside: topics and partitions

    def _connect(self) -> Cluster:
        config = self._config
        return Cluster(
            StaticSource(config.bootstrap_servers)
            if config.bootstrap_servers
            else ZooKeeperSource(config.zookeeper_connect),
            runtime=self._runtime,
            client_id=config.client_id,
            max_age_ms=config.metadata_max_age_ms,
            request_timeout_ms=config.request_timeout_ms,
            receive_buffer_bytes=config.receive_buffer_bytes,
        ).start()

    def _note_metadata(self) -> None:
        self._metadata_changed = True
        self._news.set()

    def _look_at_metadata(self) -> None:
        """See whether there are other topics for the pattern, or other partitions to share out."""
        membership = self._membership
        now = time.monotonic()
        if membership is None or not (self._metadata_changed or now >= self._metadata_due):
            return
        self._metadata_changed = False
        self._metadata_due = now + self._config.metadata_max_age_ms / 1000
        try:
            if self._pattern is not None:
                topics = self._matching(self._pattern)
                if topics != self._topics:
                    self._topics = topics
                    membership.subscribe(topics)
            shared_out = membership.shared_out
            if membership.leads and self._share is not None:
                counts = self._partitions_of(frozenset(shared_out) | self._topics).counts
                if any(counts[topic] != shared_out.get(topic) for topic in counts):
                    membership.request_rejoin()
        except (ProtocolError, ClientError) as error:
            logger.info("metadata not read group=%s error=%s", self._config.group_id, error)

    def _matching(self, pattern: re.Pattern[str]) -> frozenset[str]:
        return frozenset(
            topic
            for topic in self._cluster.topics()
            if pattern.match(topic)
            and not (self._config.exclude_internal_topics and topic.startswith("__"))
        )

    def _partitions_of(self, topics: frozenset[str]) -> ClusterPartitions:
        counts: dict[str, int] = {}
        leaders: dict[TopicPartition, int] = {}
        for topic in sorted(topics):
            try:
                partitions = self._cluster.partitions(topic)
            except UnknownTopicOrPartition:
                continue
            counts[topic] = len(partitions)
            for each in partitions:
                if each.leader is not None:
                    leaders[topic, each.partition] = each.leader
        racks = {b.id: b.rack for b in self._cluster.brokers().values() if b.rack is not None}
        return ClusterPartitions(counts, leaders, racks)

    def _seek_to(self, time_ms: int, partitions: Sequence[TopicPartition]) -> None:
        keys = list(partitions) or list(self._partitions)
        for key in keys:
            self._held(key)
        for key, offset in resolve_or_end(self._cluster, dict.fromkeys(keys, time_ms)).items():
            self._partitions[key].seek(offset)
        self._fetchers.wake()

    def _held(self, key: TopicPartition) -> ConsumedPartition:
        self._check_open()
        partition = self._partitions.get(key)
        if partition is None:
            raise NotOwned(f"{key[0]}-{key[1]} is not held by this consumer")
        return partition

    def _check_open(self) -> None:
        if self._closed:
            raise ConsumerClosed("the consumer was closed")


def _chosen(names: Sequence[str], own: Sequence[Assignor]) -> list[Assignor]:
    """The assignors in order of preference."""
    given = {assignor.name: assignor for assignor in own}
    chosen = [assignor for assignor in own if assignor.name not in names]
    for name in names:
        if name in given:
            chosen.append(given[name])
        elif name in BUILT_IN:
            chosen.append(BUILT_IN[name]())
        else:
            raise ConfigError(
                f"partition.assignment.strategy={name} is not known: one of "
                f"{', '.join(BUILT_IN)}, or give the assignor to the constructor"
            )
    return chosen


def _fetch_config(config: GroupConsumerConfig) -> ConsumerConfig:
    """The settings of the fetchers, which know those of the older consumers."""
    return ConsumerConfig(
        group_id="fetch",
        zookeeper_connect="none",
        socket_timeout_ms=config.request_timeout_ms,
        fetch_message_max_bytes=config.max_partition_fetch_bytes,
        fetch_message_limit_bytes=max(config.max_partition_fetch_bytes, 64 * 1024 * 1024),
        fetch_response_max_bytes=config.fetch_max_bytes,
        fetch_min_bytes=config.fetch_min_bytes,
        fetch_wait_max_ms=config.fetch_max_wait_ms,
        refresh_leader_backoff_ms=config.retry_backoff_ms,
        queued_max_message_chunks=_MAX_CHUNKS,
        auto_offset_reset=_RESET[config.auto_offset_reset],
    )


def _known(positions: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
    return {key: position for key, position in positions.items() if position is not None}
