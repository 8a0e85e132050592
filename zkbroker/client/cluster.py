"""The cluster as a client knows it: brokers, partitions with their leaders, and connections.

Invariant: look-ups read the view that the reader published last (`view_reader`), without a lock and
without waiting.
"""

import time
from collections.abc import Callable, Collection
from typing import Self, TypeVar

from zkbroker.client.any_broker import PATIENCE_S, AnyBroker, Question
from zkbroker.client.connections import Connections
from zkbroker.client.leader_retries import retry_requests
from zkbroker.client.metadata_source import all_topics, request_creation
from zkbroker.client.missing_leaders import explain
from zkbroker.client.source import ClusterSource
from zkbroker.client.view import (
    NO_EPOCH,
    BrokerAddress,
    BrokerUnavailable,
    PartitionInfo,
    Partitions,
)
from zkbroker.client.view_reader import ViewReader
from zkbroker.client.zookeeper_source import ZooKeeperSource
from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.errors import LeaderNotAvailable, ProtocolError, UnknownTopicOrPartition
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.network.client.opening import check_security
from zkbroker.runtime import Runtime, get_runtime

_LEAST_READING_S = 1.0
_CREATION_POLL_S = 0.05

T = TypeVar("T")


class Cluster:
    """A view of a cluster that is kept current, and connections to its brokers.

    Args:
        source: `ZooKeeperSource`, `StaticSource` or `SingleAddressSource`.
        runtime: `threads`, `gevent` or a `Runtime`.
        client_id: sent with every request.
        max_age_ms: the age at which the view is read again; -1 for never.
        request_timeout_ms: of requests to brokers, and of the methods here that wait.
        connect_timeout_ms: of connections to brokers.
        send_buffer_bytes: of the connections; -1 leaves the system's.
        receive_buffer_bytes: of the connections; -1 leaves the system's.
        patience_s: how long one broker may take to answer a look-up before another is asked.
        security: TLS and the login of connections.

    Raises:
        ConfigError: the files of `security` cannot be used.
    """

    def __init__(
        self,
        source: ClusterSource,
        *,
        runtime: str | Runtime = "threads",
        client_id: str = "zkbroker",
        max_age_ms: int = 600_000,
        request_timeout_ms: int = 10_000,
        connect_timeout_ms: int = 10_000,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        patience_s: float = PATIENCE_S,
        security: ClientSecurity = NO_SECURITY,
    ) -> None:
        check_security(security)
        self.runtime = get_runtime(runtime)
        self._source = source
        self.security = security
        self._request_timeout_ms = request_timeout_ms
        if isinstance(source, ZooKeeperSource):
            source.runtime = self.runtime
            source.protocol = security.protocol

        def dial(host: str, port: int, limit_s: float) -> BrokerConnection:
            return BrokerConnection(
                self.runtime,
                host,
                port,
                client_id=client_id,
                connect_timeout_ms=min(connect_timeout_ms, round(limit_s * 1000)),
                request_timeout_ms=request_timeout_ms,
                send_buffer_bytes=send_buffer_bytes,
                receive_buffer_bytes=receive_buffer_bytes,
                security=security,
            )

        self._connections = Connections(self.runtime, dial, connect_timeout_ms / 1000 + 1)
        self._any_broker = AnyBroker(self._connections, request_timeout_ms / 1000, patience_s)
        max_age_s = max_age_ms / 1000 if max_age_ms >= 0 else None
        self._reader = ViewReader(source, self.runtime, max_age_s)
        self._started = False
        self._closed = False

    # -- life cycle

    def start(self) -> Self:
        """Connect to the source and read the brokers.

        Raises:
            ZkbrokerError: the source cannot be reached; says what to change.
        """
        if not self._started:
            try:
                self._reader.start(self._any_broker)
            except BaseException:
                self._connections.drop(lambda address: True)
                raise
            self._started = True
        return self

    def close(self, timeout_s: float = 5.0) -> None:
        """Close the connections and the source; may be called twice."""
        if not self._closed:
            self._closed = True
            self._connections.close()
            self._reader.close(timeout_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- the view

    def brokers(self) -> dict[int, BrokerAddress]:
        """Return the live brokers by id."""
        return dict(self._reader.view.brokers)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the known leader of a partition, None without one; does not wait."""
        found = self._partition(topic, partition)
        return None if found is None else found.leader

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the epoch of a partition's leader, -1 where it is not known; does not wait."""
        found = self._partition(topic, partition)
        return NO_EPOCH if found is None else found.leader_epoch

    def _partition(self, topic: str, partition: int) -> PartitionInfo | None:
        known = self._reader.view.topics.get(topic)
        if known is None or isinstance(known, ProtocolError):
            return None
        # Partitions are numbered from 0 without gaps, save in trees that were written by hand.
        if partition < len(known) and known[partition].partition == partition:
            return known[partition]
        return next((each for each in known if each.partition == partition), None)

    def known_partitions(self, topic: str) -> Partitions | None:
        """Return the partitions of a topic as last read, None where unknown; does not wait."""
        return self._reader.known(topic)

    def no_leader(self, topic: str, partition: int) -> LeaderNotAvailable:
        """Return the error that says why a partition has no leader, as far as is known."""
        info = self._partition(topic, partition)
        if info is not None:
            return LeaderNotAvailable(explain(info, self._reader.view.brokers))
        known = len(self.known_partitions(topic) or ())
        why = f"the topic has {known} partition(s)" if known else "there is no such topic"
        return LeaderNotAvailable(f"{topic}-{partition} does not exist: {why}")

    def partitions(
        self, topic: str, *, create: bool = False, timeout_s: float | None = None
    ) -> Partitions:
        """Return the partitions of a topic by number; ask a broker where they are not known.

        Args:
            topic: its name.
            create: have a broker create a missing topic, where the brokers' settings allow it, and
                wait until its partitions have leaders.
            timeout_s: how long that may take; the request time-out by default.

        Raises:
            UnknownTopicOrPartition: it does not exist (and is not created).
            LeaderNotAvailable: it was created, and has no leaders yet.
            ZkbrokerError: the source or the brokers cannot be reached.
        """
        cached = self.known_partitions(topic)
        if cached and (not create or any(each.leader is not None for each in cached)):
            return cached
        deadline = time.monotonic() + self._seconds(timeout_s)
        known = self._read_topic(topic, deadline)
        if isinstance(known, UnknownTopicOrPartition) and create:
            self.ask_any(lambda connection, wait_s: request_creation(connection, topic, wait_s))
        while create and (
            isinstance(known, UnknownTopicOrPartition | LeaderNotAvailable)
            or (not isinstance(known, ProtocolError) and all(p.leader is None for p in known))
        ):
            if time.monotonic() >= deadline:
                raise self._unled(topic, known)
            self.runtime.sleep(_CREATION_POLL_S)
            known = self._read_topic(topic, deadline)
        if isinstance(known, ProtocolError):
            raise known
        return known

    def _unled(self, topic: str, known: Partitions | ProtocolError) -> LeaderNotAvailable:
        if isinstance(known, ProtocolError) or not known:
            return LeaderNotAvailable(f"topic {topic} was created, and has no partitions yet")
        return self.no_leader(topic, known[0].partition)

    def _read_topic(self, topic: str, deadline: float) -> Partitions | ProtocolError:
        left_s = max(_LEAST_READING_S, deadline - time.monotonic())
        self.refresh([topic], timeout_s=left_s)
        return self._reader.view.topics.get(topic) or UnknownTopicOrPartition(
            f"topic {topic} does not exist"
        )

    def topics(self) -> list[str]:
        """Return the names of all topics, internal ones too."""
        found = self._source.all_topics()
        if found is not None:
            return found
        return retry_requests(
            self, [], lambda: self.ask_any(all_topics), timeout_s=self._seconds(None)
        )

    def refresh(
        self, topics: Collection[str] | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Wait for a reading of the source that begins now.

        Args:
            topics: topics to read beside those that were asked for before.
            timeout_s: how long to wait; the request time-out by default.

        Raises:
            ZkbrokerError: the source cannot be read.
            RequestTimedOut: it took too long.
        """
        self._reader.refresh(topics, self._seconds(timeout_s))

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change of the view; returns a function that ends it.

        It runs in the owner loop: only set an event in it.
        """
        return self._reader.watch(callback)

    # -- connections

    def connection(
        self, broker_id: int, lane: str = "", *, timeout_s: float | None = None
    ) -> BrokerConnection:
        """Return a connection to a broker; open one where there is none.

        Args:
            broker_id: one of `brokers()`.
            lane: each lane has a connection of its own; a long poll blocks its lane.
            timeout_s: how long to wait for it; by default as long as connecting may take.

        Raises:
            BrokerUnavailable: the broker is not registered or cannot be reached.
        """
        only = self._source.only_connection()
        if only is not None:
            return only
        address = self._reader.view.brokers.get(broker_id)
        if address is None:
            raise BrokerUnavailable(f"broker {broker_id} is not registered")
        return self._connections.get(address, lane, timeout_s)

    def any_connection(self) -> BrokerConnection:
        """Return a connection to any broker, for look-ups that take little time.

        Raises:
            NoBrokersAvailable: no broker can be reached.
        """
        return self.ask_any(lambda connection, _: connection)

    def ask_any(self, question: Question[T], *, timeout_s: float | None = None) -> T:
        """Return the answer of the first broker that answers.

        Args:
            question: asks one broker, and waits for its answer so many seconds; after them
                another broker is asked.
            timeout_s: how long all of it may take; the request time-out by default.

        Raises:
            NoBrokersAvailable: no broker can be reached.
            NetworkError, RequestTimedOut: no broker answered.
            ZkbrokerError: any other error of `question`.
        """
        only = self._source.only_connection()
        if only is not None:
            return question(only, self._seconds(timeout_s))
        brokers = self._reader.view.brokers.values()
        return self._any_broker.ask(question, brokers, timeout_s=timeout_s)

    def _seconds(self, timeout_s: float | None) -> float:
        return self._request_timeout_ms / 1000 if timeout_s is None else timeout_s
