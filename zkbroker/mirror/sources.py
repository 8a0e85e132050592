"""The consumer side: one member of a group, of either kind, that returns chunks as fetched.

Invariants: unless the membership is lost, partitions are given away only after `on_release` has
    returned. Chunks returned after a loss were fetched before it. `poll` also keeps the membership
    alive, so it is called all the time, with `max_bytes` 0 if there is no room.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from zkbroker.consumer import (
    Blacklist,
    Consumer,
    GroupConsumer,
    NotOwned,
    RebalanceListener,
    TopicFilter,
    Whitelist,
)
from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.consumer.group.commits import CommitFailed
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.source_config import SourceConfig
from zkbroker.rebalance import Owned
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

OnRelease = Callable[[Collection[PartitionKey]], object]


class Source(Protocol):
    """A member of the group of a source."""

    def poll(self, timeout_s: float, max_bytes: int) -> Sequence[Chunk]:
        """Return fetched chunks, after waiting for the first; none if `max_bytes` is 0."""

    def wake(self) -> None:
        """Make a waiting poll return; from any task."""

    def commit(self, positions: Mapping[PartitionKey, int]) -> None:
        """Commit positions.

        Raises:
            CommitFailed, NotOwned: other members own them now.
            ZkbrokerError: the storage refused, or did not answer.
        """

    def positions(self) -> dict[PartitionKey, int]:
        """Return the next offset of each assigned partition."""

    def processed(self) -> dict[PartitionKey, int]:
        """Return the offset after the chunks of earlier polls, where there were any."""

    def lag(self) -> dict[PartitionKey, int]:
        """Return the lag of each partition, as of its last fetch."""

    def close(self, timeout_s: float) -> None:
        """Give the partitions away, after `on_release`, and leave the group."""


LOST = (CommitFailed, NotOwned)
"""Errors of `commit` after the loss of partitions."""


class CoordinatorSource:
    """A member of a coordinator's group.

    Args:
        config: of the mirror.
        source: which cluster.
        number: which stream.
        on_release: called before partitions are given away, from within `poll` or `close`.
        on_lost: called when they are lost already.
        listener: a user's, called after the mirror.
        runtime: of the mirror.
    """

    def __init__(
        self,
        config: MirrorConfig,
        source: SourceConfig,
        number: int,
        *,
        on_release: OnRelease,
        on_lost: OnRelease,
        listener: Any,
        runtime: Runtime,
    ) -> None:
        consumer = GroupConsumer(source.group_consumer(number), runtime=runtime)
        try:
            consumer.subscribe(topic_pattern(config), _Releases(on_release, on_lost, listener))
        except BaseException:
            consumer.close()
            raise
        self.poll = consumer.poll_chunks
        self.wake = consumer.wakeup
        self.commit = consumer.commit
        self.positions = consumer.positions
        self.processed = consumer.processed
        self.lag = consumer.lag
        self.close = consumer.close


class _Releases(RebalanceListener):
    def __init__(self, on_release: OnRelease, on_lost: OnRelease, listener: Any) -> None:
        self._on_release = on_release
        self._on_lost = on_lost
        self._listener = RebalanceListener() if listener is None else listener

    def on_partitions_revoked(self, partitions: Collection[PartitionKey]) -> None:
        self._on_release(partitions)
        self._listener.on_partitions_revoked(partitions)

    def on_partitions_assigned(self, partitions: Collection[PartitionKey]) -> None:
        self._listener.on_partitions_assigned(partitions)

    def on_partitions_lost(self, partitions: Collection[PartitionKey]) -> None:
        self._on_lost(partitions)
        self._listener.on_partitions_lost(partitions)


class ZooKeeperGroupSource:
    """A member of a group in ZooKeeper; arguments as of `CoordinatorSource`.

    The rebalancer's task calls `on_release`, and `on_lost` before the next assignment begins.
    """

    def __init__(
        self,
        config: MirrorConfig,
        source: SourceConfig,
        number: int,
        *,
        on_release: OnRelease,
        on_lost: OnRelease,
        listener: Any,
        runtime: Runtime,
    ) -> None:
        self._room = runtime.event()
        connector = Consumer.create(source.connector(number), runtime=runtime)
        connector.add_rebalance_listener(_Ownership(on_release, on_lost))
        if listener is not None:
            connector.add_rebalance_listener(listener)
        try:
            (self._stream,) = connector.create_message_streams_by_filter(topic_filter(config))
        except BaseException:
            connector.shutdown()
            raise
        self.wake = self._room.set
        self.commit = connector.commit_offsets
        self.positions = connector.positions
        self.processed = connector.processed
        self.lag = connector.lag
        self.close = connector.shutdown

    def poll(self, timeout_s: float, max_bytes: int) -> Sequence[Chunk]:
        if max_bytes <= 0:
            self._room.wait(timeout_s)
            self._room.clear()
            return ()
        chunk = self._stream.take_chunk(timeout_s)
        return () if chunk is None else (chunk,)


class _Ownership:
    def __init__(self, on_release: OnRelease, on_lost: OnRelease) -> None:
        self._on_release = on_release
        self._on_lost = on_lost
        self._owned: list[PartitionKey] = []

    def before_releasing_partitions(self, owned: Owned) -> None:
        self._owned = []
        self._on_release(list(owned))

    def before_starting_fetchers(self, consumer_id: str, owned: Owned) -> None:
        """Report the partitions that went with a ZooKeeper session, which releases nothing.

        A partition may come back after another member has committed it: its earlier position must
        not be committed then.
        """
        lost, self._owned = self._owned, list(owned)
        if lost:
            self._on_lost(lost)


def topic_filter(config: MirrorConfig) -> TopicFilter:
    """Return the filter of mirrored topics, for a group in ZooKeeper."""
    return Whitelist(config.whitelist) if config.whitelist else Blacklist(config.blacklist)


def topic_pattern(config: MirrorConfig) -> re.Pattern[str]:
    """Return the same filter as a pattern of names."""
    chosen = topic_filter(config)
    inner = chosen.compiled.pattern
    whole = rf"(?:{inner})\Z"
    return re.compile(whole if config.whitelist else f"(?!{whole})", chosen.compiled.flags)
