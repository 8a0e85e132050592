"""A consumer whose group has a coordinator: `subscribe`, `poll`, `commit`.

    with GroupConsumer(GroupConsumerConfig(bootstrap_servers=("host:9092",), group_id="g")) as c:
        c.subscribe(["topic"])
        for message in c:
            ...

Invariants:
- One task at a time uses a consumer (`wakeup` and `close` apart); its own tasks only fetch ahead
  and keep the membership alive. Callbacks run in the task that polls.
- The next poll counts the messages of a poll as processed; automatic commits cover only these.
- No message of a partition is returned after it was given up. Before that its processed messages
  are committed, unless the membership was lost: then another member may own the partition.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence

from zkbroker.client import Cluster
from zkbroker.client.group_offsets import NO_GENERATION, Committed
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.config.shared_options import READ_COMMITTED
from zkbroker.consumer.arguments import check_offset
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.fetching.messages import Decoder, MessageAndMetadata
from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.consumer.fetching.usable import Usable
from zkbroker.consumer.group.assignors import Assignor
from zkbroker.consumer.group.commits import OnCommit
from zkbroker.consumer.group.connecting import connect
from zkbroker.consumer.group.held_partitions import HeldPartitions
from zkbroker.consumer.group.inbox import Inbox
from zkbroker.consumer.group.listener import RebalanceListener
from zkbroker.consumer.group.offset_queries import OffsetQueries, OffsetsOf
from zkbroker.consumer.group.session import GroupSession, Offsets
from zkbroker.consumer.group.strategies import choose_assignors
from zkbroker.errors import ClientError, RequestTimedOut
from zkbroker.measures import Family, lag_families
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.types import PartitionKey

_ITERATOR_POLL_S = 1.0
_POSITION_POLL_S = 0.02
_MAX_CHUNKS = 4


class GroupConsumer:
    """Consumes as a member of a group, or by itself after `assign`.

    Args:
        config: settings.
        runtime: `threads`, `gevent` or a `Runtime`.
        assignors: strategies beside the built-in ones, or in place of them. A name in
            `partition.assignment.strategy` is looked up here first; strategies given here that
            it does not name are preferred to those that it names.
        key_decoder: turns the bytes of a key into an object; not called for null.
        value_decoder: the same for values.
        cluster: a started `Cluster` to use, which is not closed; otherwise made from the settings.

    Attributes:
        group_id: the group whose offsets are used; empty where there is none.
        client_id: the id that its requests carry.
        positions: `positions()` returns the offset of the next message of each partition held,
            where it is known.
        lag: `lag()` returns how many offsets each is behind, as of its last fetch.
        offsets_for_times, beginning_offsets, end_offsets: see `OffsetQueries`.

    Raises:
        ConfigError: a strategy is not known.
        ZkbrokerError: the cluster cannot be reached.
    """

    role = "consumer"

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
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._runtime = get_runtime(runtime)
        chosen = choose_assignors(config.strategies, assignors)
        self._own_cluster = cluster is None
        self._cluster = cluster if cluster is not None else connect(config, self._runtime)
        self._news = self._runtime.event()
        self._fetchers = Fetchers(self._cluster, config.fetching(_MAX_CHUNKS), self._runtime)
        self._held = HeldPartitions(
            self._runtime,
            Inbox(self._runtime, self._news.set, key_decoder, value_decoder),
            fetch_bytes=config.max_partition_fetch_bytes,
            queued_chunks=_MAX_CHUNKS,
        )
        self._session = GroupSession(
            config,
            self._cluster,
            chosen,
            held=self._held,
            fetchers=self._fetchers,
            runtime=self._runtime,
            notify=self._news.set,
        )
        committed_only = config.isolation_level == READ_COMMITTED
        queries = OffsetQueries(
            self._cluster, read_committed=committed_only, timeout_s=self._request_timeout_s
        )
        self.group_id = config.group_id
        self.client_id = config.client_id
        self.positions = self._held.positions
        self.processed = self._held.processed
        self.lag = self._held.lag
        self.offsets_for_times = queries.at_times
        self.beginning_offsets = queries.beginnings
        self.end_offsets = queries.ends
        self._woken = False
        self._usable = Usable()

    # -- subscriptions and assignments

    def subscribe(
        self,
        topics: Iterable[str] | str | re.Pattern[str],
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribe to topics as a member of the group, in place of earlier subscriptions.

        Args:
            topics: names; or a pattern for all matching topics, now or later: a compiled regular
                expression, or a text that begins with `^`.
            listener: called with partitions that are assigned, revoked or lost.

        Raises:
            ClientError, InvalidTopic: assigned by hand before; no group id; a name is no topic's.
        """
        self._usable.check()
        if self._held.partitions and self._session.membership is None:
            raise ClientError("partitions are assigned by hand: call unsubscribe first")
        if not self._config.group_id:
            raise ClientError("subscribe needs a group.id")
        if listener is not None:
            self._session.listener = listener
        self._session.topics.subscribe(topics)
        self._session.join()

    def assign(self, partitions: Iterable[PartitionKey]) -> None:
        """Consume these partitions without joining the group, in place of earlier ones.

        Where commits are automatic, returned messages of partitions that are given up are
        committed.

        Raises:
            ClientError: topics are subscribed.
        """
        self._usable.check()
        if self._session.membership is not None:
            raise ClientError("topics are subscribed: call unsubscribe first")
        wanted = dict.fromkeys(partitions)
        self._session.keep_only(wanted)
        fresh = [key for key in wanted if key not in self._held.partitions]
        committed = self._session.offsets.fetch(fresh) if self._config.group_id else {}
        self._fetchers.start(self._held.add(fresh, committed))

    def unsubscribe(self) -> None:
        """Stop consuming; a member leaves its group."""
        self._usable.check()
        self._session.give_up_all()
        self._session.leave(self._request_timeout_s)
        self._session.topics.clear()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed."""
        return self._session.topics.names

    def assignment(self) -> set[PartitionKey]:
        """The partitions that are held."""
        return set(self._held.partitions)

    @property
    def generation(self) -> int:
        """The generation in which the partitions are held; -1 outside a group."""
        return NO_GENERATION if self._session.share is None else self._session.share.generation

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave; empty outside a group."""
        return "" if self._session.share is None else self._session.share.member_id

    # -- consuming

    def poll(
        self, timeout_s: float = 1.0, max_records: int | None = None
    ) -> list[MessageAndMetadata]:
        """Return messages, in order within each partition; an empty list when none came in time.

        Args:
            timeout_s: how long to wait for the first.
            max_records: how many at most; `max.poll.records` by default.

        Raises:
            OffsetOutOfRange: an offset is not in the log, and `auto.offset.reset` is `none`.
            ProtocolError: a partition cannot be read, or the group cannot be joined.
            ClientError: the same, for a reason of this client's.
        """
        self._fill(timeout_s, max_records or self._config.max_poll_records)
        return self._held.hand_out()

    def poll_chunks(self, timeout_s: float = 1.0, max_bytes: int = 2**31) -> list[Chunk]:
        """Return message sets as they were fetched, for callers that pass them on undecoded.

        A set may begin with messages before its `offset` and end with a cut one. Do not mix it with
        `poll`.

        Args:
            timeout_s: how long to wait for the first.
            max_bytes: how much at most, but at least one chunk; 0 only serves the membership.

        Raises:
            ProtocolError, ClientError: as of `poll`.
        """
        self._usable.check()
        deadline = time.monotonic() + timeout_s
        self._held.mark_processed()
        while True:
            self._news.clear()
            self._session.serve()
            chunks = self._held.take_chunks(max_bytes)
            if chunks:
                self._fetchers.wake()
            if chunks or self._waited(deadline):
                return chunks

    def __iter__(self) -> Iterator[MessageAndMetadata]:
        """Yield messages for ever; a commit in between covers the yielded ones."""
        while not self._usable.ended:
            yield from self._held.hand_out_singly()
            self._fill(_ITERATOR_POLL_S, self._config.max_poll_records)

    def wakeup(self) -> None:
        """Make the waiting poll, or the next one, return at once; from any task."""
        self._woken = True
        self._news.set()

    def pause(self, *partitions: PartitionKey) -> None:
        """Return no messages of these partitions until they are resumed; they stay held."""
        for key in partitions:
            self._held.get(key)
            self._held.paused.add(key)

    def resume(self, *partitions: PartitionKey) -> None:
        """Return messages of these partitions again."""
        self._held.paused.difference_update(partitions)
        self._news.set()

    def paused(self) -> set[PartitionKey]:
        """The partitions that are paused."""
        return set(self._held.paused)

    # -- positions

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at an offset.

        Raises:
            NotOwned, ClientError: the partition is not held, the offset is negative.
        """
        offset = check_offset(offset, "call seek_to_beginning or seek_to_end")
        self._held.get((topic, partition)).seek(offset)
        self._fetchers.wake()

    def seek_to_beginning(self, *partitions: PartitionKey) -> None:
        """Continue at the log start; of all partitions held if none is named."""
        self._seek_to(self.beginning_offsets, partitions)

    def seek_to_end(self, *partitions: PartitionKey) -> None:
        """Continue at the log end; of all partitions held if none is named."""
        self._seek_to(self.end_offsets, partitions)

    def position(self, topic: str, partition: int, timeout_s: float | None = None) -> int:
        """The offset of the next message that will be returned.

        Raises:
            NotOwned: the partition is not held.
            RequestTimedOut: it could not be found out in time.
        """
        seconds = self._request_timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + seconds
        while (position := self._held.position((topic, partition))) is None:
            if time.monotonic() > deadline:
                raise RequestTimedOut(f"the position of {topic}-{partition} is not known yet")
            self._runtime.sleep(_POSITION_POLL_S)
        return position

    # -- measures

    def measures(self) -> Iterator[Family]:
        """Yield what `zkbroker.monitoring` shows, under the names of the JMX beans."""
        yield from self._fetchers.measures()
        yield from lag_families(self.lag())
        yield Family.single("OwnedPartitionsCount", len(self._held.partitions))
        yield Family.single("RebalancesPerSec", self._session.rebalances)

    # -- committing

    def commit(self, offsets: Offsets | None = None, *, timeout_s: float | None = None) -> None:
        """Commit, and wait for the answer.

        Args:
            offsets: the next offset to consume of each partition, as a number or a `Committed`
                with metadata; by default those after all returned messages.
            timeout_s: how long to try; the request time-out by default.

        Raises:
            CommitFailed: the partitions belong to another generation of the group by now.
            ProtocolError: refused, or the coordinator could not be reached in time.
        """
        self._usable.check()
        seconds = self._request_timeout_s if timeout_s is None else timeout_s
        self._session.commit(offsets, seconds)

    def commit_async(
        self, offsets: Offsets | None = None, on_commit: OnCommit | None = None
    ) -> None:
        """Commit without waiting; tried once.

        Args:
            offsets: as of `commit`.
            on_commit: called with the offsets, and with the error if there was one, from within a
                later `poll`, `commit` or `close`.
        """
        self._usable.check()
        self._session.commit_async(offsets, on_commit)

    def committed(self, partitions: Iterable[PartitionKey]) -> dict[PartitionKey, Committed | None]:
        """Return the committed offsets of the group, None where there is none."""
        return self._session.offsets.fetch(partitions)

    # -- ending

    def close(self, timeout_s: float = 30.0, *, in_hand: bool = True) -> None:
        """Commit if commits are automatic, leave the group, stop fetching; may be called twice.

        With `in_hand` the messages returned last count as processed.
        """
        if self._usable.ended:
            return
        deadline = time.monotonic() + timeout_s
        try:
            self._session.give_up_all(in_hand=in_hand)
        finally:
            self._usable.end()
            self._news.set()
            self._session.leave(max(0.1, deadline - time.monotonic()))
            self._session.topics.unwatch()
            self._fetchers.close(max(0.1, deadline - time.monotonic()))
            if self._own_cluster:
                self._cluster.close()

    def __enter__(self) -> "GroupConsumer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        self.close(in_hand=kind is None)

    # -- waiting for messages

    def _fill(self, timeout_s: float, limit: int) -> None:
        """Serve the membership, then wait until there are messages to hand out."""
        self._usable.check()
        deadline = time.monotonic() + timeout_s
        self._held.mark_processed()
        while True:
            self._news.clear()
            self._session.serve()
            if self._held.collect(limit):
                self._fetchers.wake()
            if self._held.has_messages or self._waited(deadline):
                return

    def _waited(self, deadline: float) -> bool:
        """Wait for an event; return True instead when the poll has waited long enough."""
        left_s = deadline - time.monotonic()
        if self._woken or left_s <= 0 or self._usable.ended:
            self._woken = False
            return True
        self._news.wait(min(left_s, self._session.seconds_to_next_task()))
        return False

    def _seek_to(self, offsets_of: OffsetsOf, partitions: Sequence[PartitionKey]) -> None:
        keys = list(partitions) or list(self._held.partitions)
        for key in keys:
            self._held.get(key)
        for key, offset in offsets_of(keys).items():
            self._held.get(key).seek(offset)
        self._fetchers.wake()
