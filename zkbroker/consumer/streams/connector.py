"""The consumer connector: streams of a member of a group.

    /consumers/[group]/ids/[consumer_id]                members and their subscriptions
    /consumers/[group]/owners/[topic]/[partition]       owners of partitions
    /consumers/[group]/offsets/[topic]/[partition]      committed offsets

Theory of operation: the rebalancer registers this member, watches the group, and calls the
membership to stop, commit and start. Fetchers, one task for each broker, fill bounded queues; the
user reads the streams. All of it runs until `shutdown`: a registered member never gives up.

Delivery is at least once. Automatic commits and rebalances count a message as consumed when its
reader comes back for the next one; `commit_offsets()` and `shutdown()` also count the messages
handed out last. (A `with` block that ends with an exception does not.)
"""

import logging
import time
from collections.abc import Iterator, Mapping
from functools import partial

from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer.arguments import check_offset, check_streams
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.fetching.messages import Decoder, NotOwned
from zkbroker.consumer.fetching.partition import lag
from zkbroker.consumer.fetching.usable import Usable
from zkbroker.consumer.streams.filters import TopicFilter, make_filter
from zkbroker.consumer.streams.generation import ConsumerGeneration, Generation, Newer
from zkbroker.consumer.streams.membership import Membership
from zkbroker.consumer.streams.offset_keeper import OffsetKeeper
from zkbroker.consumer.streams.stream import KafkaStream
from zkbroker.consumer.streams.streams import Streams
from zkbroker.errors import ClientError, ConfigError
from zkbroker.measures import Family, lag_families
from zkbroker.rebalance import OwnershipListener, Rebalancer
from zkbroker.registry.groups import StreamSubscription, new_consumer_id
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.runtime.forks import abandon_in_child
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import SessionState, ZkSession

logger = logging.getLogger(__name__)


class ConsumerConnector:
    """One member of a consumer group. Connects to ZooKeeper when made.

    Args:
        config: the consumer's settings, or those for another generation of Kafka.
        runtime: `threads`, `gevent` or a `Runtime`; the streams are read under the same.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """

    role = "consumer"

    def __init__(
        self, config: ConsumerConfig | ConsumerGeneration, *, runtime: str | Runtime = "threads"
    ) -> None:
        other = None if isinstance(config, ConsumerConfig) else config
        config = config if isinstance(config, ConsumerConfig) else config.connector()
        self.config = config
        self._runtime = get_runtime(runtime)
        self.consumer_id = new_consumer_id(config.group_id, config.consumer_id or None)
        self._membership: Membership | None = None
        # While `shutdown` gives the partitions away, rebalance listeners may still commit.
        self._leaving: Membership | None = None
        self._rebalancer: Rebalancer | None = None
        self._fetchers: Fetchers | None = None
        self._keeper: OffsetKeeper | None = None
        self._listeners: list[OwnershipListener] = []
        self._usable = Usable("the connector was shut down")
        self._lock = self._runtime.lock()
        self._shut_down = self._runtime.event()
        self._session = ZkSession(
            config.zookeeper_connect,
            session_timeout_ms=config.zookeeper_session_timeout_ms,
            connect_timeout_ms=config.zookeeper_connection_timeout_ms,
            runtime=self._runtime,
            security=config.security.zookeeper,
        ).start()
        try:
            self._generation: Generation = (
                Newer(config, self._session, self._runtime)
                if other is None
                else other.generation(self._session, self._runtime)
            )
            self._generation.start()
        except BaseException:
            self._session.close()
            raise
        self._streams = Streams(
            self._runtime,
            timeout_ms=config.consumer_timeout_ms,
            on_room=self._wake_fetchers,
            lease_valid=self._session.lease_valid,
        )
        abandon_in_child(self)

    # -- streams

    def create_message_streams(
        self,
        topic_streams: Mapping[str, int],
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> dict[str, list[KafkaStream]]:
        """Join the group and return streams by topic.

        Args:
            topic_streams: topic -> number of streams; each partition of it feeds one of them. A
                topic need not exist yet.
            key_decoder: for keys that are not null; bytes as they are without one.
            value_decoder: the same for values.

        Raises:
            ClientError: the streams were made already; a connector joins once.
            ConfigError, InvalidTopic: a number of streams is below one, a name is no topic's.
            RegistryError: the member could not be registered.
        """
        check_streams(topic_streams, self._generation.check_topic)
        self._make_parts()
        streams = {
            topic: self._streams.make(topic, count, key_decoder, value_decoder)
            for topic, count in topic_streams.items()
        }
        self._join(StreamSubscription(dict(topic_streams)))
        return streams

    def create_message_streams_by_filter(
        self,
        topic_filter: TopicFilter,
        num_streams: int = 1,
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> list[KafkaStream]:
        """Join the group with all topics that a filter lets through, now or later.

        Args:
            topic_filter: a `Whitelist` or a `Blacklist`.
            num_streams: how many streams share the partitions of each topic.
            key_decoder: for keys that are not null; bytes as they are without one.
            value_decoder: the same for values.

        Raises:
            ClientError: the streams were made already; a connector joins once.
            ConfigError: the number of streams is below one.
            RegistryError: the member could not be registered.
        """
        if num_streams < 1:
            raise ConfigError(f"num_streams={num_streams}: give at least one")
        self._make_parts()
        streams = self._streams.make(None, num_streams, key_decoder, value_decoder)
        self._join(StreamSubscription({topic_filter.regex: num_streams}, topic_filter.pattern_name))
        return streams

    def add_rebalance_listener(self, listener: OwnershipListener) -> None:
        """Call a listener at every change of ownership; set it before the streams are made.

        In `before_starting_fetchers` a `seek` decides where a partition begins.
        """
        self._listeners.append(listener)

    @property
    def closed(self) -> bool:
        """Whether `shutdown` was called."""
        return self._usable.ended

    # -- positions

    def owned(self) -> set[PartitionKey]:
        """Return the (topic, partition)s that this member consumes."""
        return set(self._member().owned())

    def positions(self) -> dict[PartitionKey, int]:
        """Return the offset of the next message of each owned partition, where it is known."""
        return self._member().positions(in_hand=True)

    def processed(self) -> dict[PartitionKey, int]:
        """Return the offset after the processed messages of each partition, where there is one."""
        return self._member().positions(in_hand=False)

    def lag(self) -> dict[PartitionKey, int]:
        """Return how many offsets each owned partition is behind, as of its last fetch."""
        return lag(self._member().owned())

    def metrics(self) -> dict[str, int]:
        """Return owned partitions, lag, rebalances, and counts of fetches and their bytes."""
        owned, behind = self.owned(), self.lag()
        assert self._fetchers is not None
        assert self._rebalancer is not None
        return {
            "owned_partitions": len(owned),
            "lag": sum(behind.values()),
            "rebalances": self._rebalancer.rebalances,
            **self._fetchers.metrics(),
        }

    @property
    def client_id(self) -> str:
        """The id that its requests carry."""
        return self.config.effective_client_id

    def measures(self) -> Iterator[Family]:
        """Yield what `zkbroker.monitoring` shows, under the names of the JMX beans."""
        if self._fetchers is None or self._rebalancer is None:
            return
        yield from self._fetchers.measures()
        yield from lag_families(self.lag())
        yield Family.single("OwnedPartitionsCount", len(self.owned()))
        yield Family.single("RebalancesPerSec", self._rebalancer.rebalances)

    def commit_offsets(self, offsets: Mapping[PartitionKey, int] | None = None) -> None:
        """Commit the consumed offsets of this member, the messages handed out last included.

        Args:
            offsets: (topic, partition) -> offset of the next message to consume, to commit only
                these. A rebalance listener may name partitions that are about to be released.

        Raises:
            NotOwned: other members own some of the partitions; the others were committed.
            RegistryError, ProtocolError, ClientError: the storage refused or did not answer.
        """
        member = self._leaving or self._member()
        assert self._keeper is not None
        if offsets is None:
            wanted, foreign = member.positions(in_hand=True), set[PartitionKey]()
        else:
            owned = member.committable()
            checked = {key: check_offset(at, "rewind, and commit") for key, at in offsets.items()}
            wanted = {key: offset for key, offset in checked.items() if key in owned}
            foreign = offsets.keys() - wanted.keys()
        refused = self._keeper.commit(wanted, member.storage_timeout_s)
        if foreign or (refused and offsets is not None):
            raise NotOwned(f"not owned by {self.consumer_id}: {sorted(foreign | refused)}")

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at an offset; messages fetched before are dropped.

        Raises:
            NotOwned, ClientError: other members own the partition, the offset is negative.
        """
        number = check_offset(offset, "call rewind(EARLIEST_TIME) or rewind(LATEST_TIME)")
        owned = self._member().partition((topic, partition))
        if owned is None or not owned.seek(number):
            raise NotOwned(f"not owned by {self.consumer_id}: {topic}-{partition}")
        self._look_again()

    def rewind(self, time_ms: int, topic: str | None = None, partition: int | None = None) -> None:
        """Continue at the first messages at or after a time, at the log end without one.

        Args:
            time_ms: milliseconds, `EARLIEST_TIME` or `LATEST_TIME`.
            topic: only this topic; all owned partitions otherwise.
            partition: only this partition of the topic.

        Raises:
            NotOwned: this member owns none of the named partitions.
            ProtocolError: a broker does not answer, or its log has no timestamps.
        """
        named = [key for key in self._member().owned() if topic in (None, key[0])]
        wanted = {key: time_ms for key in named if partition in (None, key[1])}
        if not wanted:
            raise NotOwned(f"not owned by {self.consumer_id}: {topic or '*'}-{partition or '*'}")
        for (name, number), offset in self._generation.offsets_at(wanted).items():
            self.seek(name, number, offset)

    # -- the end

    def shutdown(self, timeout_s: float = 10.0, *, in_hand: bool = True) -> None:
        """End the streams, commit (with `auto.commit.enable`), and leave the group.

        Streams end when their readers come back for a message. Another call, from any task, only
        waits for the first one to end.

        Args:
            timeout_s: how long to wait in all; what is left then goes with the ZooKeeper
                session.
            in_hand: whether the messages handed out last count as consumed.
        """
        with self._lock:
            first = not self._usable.ended
            if first:
                self._leaving = self._membership
            self._usable.end()
        if not first:
            self._shut_down.wait(timeout_s)
            return
        try:
            self._shut(timeout_s, in_hand=in_hand)
        finally:
            self._shut_down.set()

    def _shut(self, timeout_s: float, *, in_hand: bool) -> None:
        deadline = time.monotonic() + timeout_s

        def left_s() -> float:
            return max(0.1, deadline - time.monotonic())

        for stream in self._streams:
            stream.close()
        if self._membership is not None:
            self._membership.close(in_hand=in_hand)
        if self._rebalancer is not None:
            self._rebalancer.close(left_s())
        self._leaving = None
        done = self._keeper is None or self._keeper.close(left_s())
        done = (self._fetchers is None or self._fetchers.close(left_s())) and done
        self._generation.close(left_s())
        self._session.close()
        logger.info("consumer shut down id=%s complete=%s", self.consumer_id, done)

    def abandon_after_fork(self) -> None:
        """Wait for nothing that stayed with the parent; called in the child of a fork."""
        self._lock = self._runtime.lock()
        self._leaving = None
        self._shut_down.set()

    def __enter__(self) -> "ConsumerConnector":
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        self.shutdown(in_hand=kind is None)

    # -- parts

    def _make_parts(self) -> None:
        self._usable.check()
        if self._membership is not None:
            raise ClientError("this connector has made its streams; create another connector")
        config = self.config
        generation = self._generation
        self._fetchers = generation.fetchers()
        self._keeper = generation.keeper(self.consumer_id, self._processed, lambda: self.closed)
        self._membership = Membership(
            config=config,
            runtime=self._runtime,
            fetchers=self._fetchers,
            keeper=self._keeper,
            streams=self._streams,
            stream_for=self._streams.of,
            decode=generation.decode,
            step=generation.step,
        )

    def _join(self, subscription: StreamSubscription) -> None:
        config = self.config
        self._rebalancer = Rebalancer(
            self._generation.store(self.consumer_id),
            self._member(),
            subscription=subscription,
            strategy=self._generation.strategy,
            compile_filter=lambda *registered: partial(
                make_filter(*registered).matches, exclude_internal=config.exclude_internal_topics
            ),
            backoff_ms=config.rebalance_backoff_ms,
            max_retries=config.rebalance_max_retries,
            listeners=self._listeners,
            runtime=self._runtime,
        )
        self._rebalancer.start()

    def _member(self) -> Membership:
        self._usable.check()
        if self._membership is None:
            raise ClientError("create the message streams first")
        return self._membership

    def _processed(self) -> Mapping[PartitionKey, int]:
        """Return the offsets of an automatic commit."""
        if self._membership is None or not self._session.lease_valid():
            # Another member may own the partitions by now, and brokers would take the commit.
            return {}
        if self.config.commits_to_zookeeper and self._session.state is not SessionState.CONNECTED:
            # It would only wait, and a rebalance behind it.
            return {}
        return self._membership.positions(in_hand=False)

    def _wake_fetchers(self) -> None:
        if self._fetchers is not None:
            self._fetchers.wake()

    def _look_again(self) -> None:
        for stream in self._streams:
            stream.interrupt()
        self._wake_fetchers()


class Consumer:
    """The classic entry point: `Consumer.create(config)`."""

    @staticmethod
    def create(
        config: ConsumerConfig | ConsumerGeneration, *, runtime: str | Runtime = "threads"
    ) -> ConsumerConnector:
        """Return a connector; see `ConsumerConnector`."""
        return ConsumerConnector(config, runtime=runtime)
