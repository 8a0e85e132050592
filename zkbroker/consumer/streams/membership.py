"""One member of a group: its owned partitions, and how ownership begins and ends.

    load(owned)  -> offsets are read; a listener may seek now
    start(owned) -> fetchers -> streams deliver
    stop()       -> streams pause -> messages in hand finish -> all revoked
    commit()     -> offsets of the messages processed until then
    drop()       -> all revoked at once, nothing committed (the session is lost)

Invariants:
- `pause`, `resume`, `drop` and `start` never wait; ZooKeeper's own task may call the first three,
  never at the same time as `start`. The rebalancer's loop calls the others.
- After `drop` or `stop` no stream delivers a message of the old ownership; chunks that were under
  way are stale.
- The message in hand at a stop is committed only if its reader came back in time: it is never
  lost, but may be delivered again to the next owner.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer.fetching.decode import Decode, decode_chunk
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.fetching.partition import ConsumedPartition, next_after, positions
from zkbroker.consumer.streams.offset_keeper import OffsetKeeper
from zkbroker.consumer.streams.stream import KafkaStream
from zkbroker.errors import ClientError, ProtocolError, RegistryError
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False)
class Membership:
    """The partitions of one member.

    Args:
        config: the consumer's settings.
        runtime: the connector's.
        fetchers: of the owned partitions.
        keeper: reads and commits offsets.
        streams: all streams of the member.
        stream_for: (topic, thread number) -> the stream that a partition feeds.
        decode: turns fetched bytes into messages.
        step: see `ReadProgress`.
    """

    config: ConsumerConfig
    runtime: Runtime
    fetchers: Fetchers
    keeper: OffsetKeeper
    streams: Iterable[KafkaStream]
    stream_for: Callable[[str, int], KafkaStream]
    decode: Decode = decode_chunk
    step: int = 1
    _partitions: dict[PartitionKey, ConsumedPartition] = field(default_factory=dict, init=False)
    _loaded: dict[PartitionKey, ConsumedPartition] = field(default_factory=dict, init=False)
    _final: dict[PartitionKey, int] = field(default_factory=dict, init=False)
    # Stopped, and owned in ZooKeeper until the rebalancer releases them.
    _releasing: frozenset[PartitionKey] = field(default=frozenset(), init=False)
    _closing: bool = field(default=False, init=False)
    _count_in_hand: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._lock = self.runtime.lock()
        # An offset that takes longer than a session to read or write counts as refused.
        self.storage_timeout_s = self.config.zookeeper_session_timeout_ms / 1000 + (
            self.config.offsets_channel_socket_timeout_ms / 1000
        )

    # -- look-ups

    def partition(self, key: PartitionKey) -> ConsumedPartition | None:
        """Return a partition that is owned, or loaded and about to be."""
        with self._lock:
            return self._partitions.get(key) or self._loaded.get(key)

    def owned(self) -> dict[PartitionKey, ConsumedPartition]:
        """Return all owned partitions."""
        with self._lock:
            return dict(self._partitions)

    def committable(self) -> set[PartitionKey]:
        """Return the partitions that may be committed: owned, or about to be released."""
        with self._lock:
            return self._partitions.keys() | self._releasing

    def positions(self, *, in_hand: bool) -> dict[PartitionKey, int]:
        """Return next offsets to consume; see `ConsumedPartition.position`."""
        return positions(self.owned(), in_hand=in_hand)

    def close(self, *, in_hand: bool) -> None:
        """Prepare for the last stop.

        Args:
            in_hand: whether the messages handed out last then count as consumed.
        """
        self._count_in_hand = in_hand
        self._closing = True

    # -- from ZooKeeper's task

    def pause(self) -> None:
        """The connection is gone: deliver nothing, the session may be over."""
        for stream in self.streams:
            stream.pause("session")

    def resume(self) -> None:
        """The session continues."""
        for stream in self.streams:
            stream.resume("session")

    def drop(self) -> None:
        """The session is lost: nothing is owned any more."""
        with self._lock:
            partitions, self._partitions = self._partitions, {}
            self._loaded = {}
            self._final = {}
            self._releasing = frozenset()
        for partition in partitions.values():
            partition.revoke()
        for stream in self.streams:
            stream.resume("session")
        if partitions:
            logger.warning("ownership lost with the session partitions=%d", len(partitions))

    # -- from the rebalancer's loop

    def stop(self) -> None:
        """Stop delivering, and remember how far each partition was consumed."""
        for stream in self.streams:
            stream.pause("rebalance")
        # No need to wait where messages in hand count as consumed.
        drain_ms = 0 if self._count_in_hand else self.config.rebalance_drain_ms
        deadline = time.monotonic() + drain_ms / 1000
        for stream in self.streams:
            if not stream.settle(max(0.0, deadline - time.monotonic())):
                logger.debug("message still in hand, may be delivered again")
        with self._lock:
            partitions, self._partitions = self._partitions, {}
            self._loaded = {}
            self._releasing = frozenset(partitions)
        final: dict[PartitionKey, int] = {}
        for key, partition in partitions.items():
            position = next_after(partition.revoke(), in_hand=self._count_in_hand)
            if position is not None:
                final[key] = position
        self._final = final
        for stream in self.streams:
            stream.clear()

    def commit(self) -> None:
        """Commit the positions of `stop`; after a failure the messages are consumed again."""
        final, self._final = self._final, {}
        if not self.config.auto_commit_enable or not final:
            return
        tries = 1 + (self.config.offsets_commit_max_retries if self._closing else 0)
        for left in reversed(range(tries)):
            if left < tries - 1:
                self.runtime.sleep(self.config.offsets_channel_backoff_ms / 1000)
            try:
                self.keeper.commit(final, self.storage_timeout_s)
                return
            except (RegistryError, ProtocolError, ClientError) as error:
                logger.warning("commit failed tries_left=%d error=%s", left, error)

    def load(self, owned: Mapping[PartitionKey, int]) -> None:
        """Read the offsets of claimed partitions; nothing is delivered yet.

        Args:
            owned: partition -> thread number; all are claimed in ZooKeeper.

        Raises:
            RegistryError, ProtocolError, ClientError: the offsets could not be read.
        """
        offsets = self.keeper.read(owned, self.storage_timeout_s) if owned else {}
        loaded = {
            (topic, number): ConsumedPartition(
                topic,
                number,
                self.stream_for(topic, thread),
                self.runtime.lock(),
                self.config.fetch_message_max_bytes,
                offsets.get((topic, number)),
                self.config.queued_max_message_chunks,
                self.decode,
                self.step,
            )
            for (topic, number), thread in owned.items()
        }
        with self._lock:
            self._loaded = loaded
            self._releasing = frozenset()

    def start(self, owned: Mapping[PartitionKey, int]) -> None:
        """Consume the loaded partitions."""
        with self._lock:
            partitions, self._loaded = self._loaded, {}
            self._partitions = partitions
        self.fetchers.start(partitions.values())
        for stream in self.streams:
            stream.resume("rebalance")
        logger.info("consuming partitions=%d", len(owned))
