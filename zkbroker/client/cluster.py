"""Which broker leads what, and a connection to it.

                    watch fires / refresh asked / too old
      (waiting) ───────────────────────────────────────▶ read the source
          ▲                                                     │
          └── tell the waiters and watchers ◀── publish a view ─┘

Where nothing but topics that are not known or not led yet is asked for, those alone are read: who
sends to thousands of topics learns of them one after the other.

Invariants: one owner loop reads the source, and everybody else reads the view it published last,
without a lock; a `refresh` returns only after a reading that began later than the call; a view is
never older than `max_age_ms` while the source can be read, and keeps the last knowledge while not.
"""

import logging
import random
import time
from collections.abc import Callable, Collection
from typing import Self

from zkbroker.client.asking_again import ask_again
from zkbroker.client.connections import Connections
from zkbroker.client.metadata_source import all_topics, request_creation
from zkbroker.client.view import (
    NO_EPOCH,
    BrokerAddress,
    BrokerUnavailable,
    ClusterSource,
    NoBrokersAvailable,
    PartitionInfo,
    Partitions,
    View,
)
from zkbroker.client.watchers import Watchers
from zkbroker.client.zookeeper_source import ZooKeeperSource
from zkbroker.errors import (
    ClientError,
    LeaderNotAvailable,
    ProtocolError,
    RequestTimedOut,
    UnknownTopicOrPartition,
    ZkbrokerError,
)
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.runtime import Event, OwnerLoop, Runtime, get_runtime

logger = logging.getLogger(__name__)

_RETRY_S = 0.2
_LEAST_READING_S = 1.0
_CREATION_POLL_S = 0.05


class _Waiter:
    """Somebody who waits for a reading with a number of at least `ticket`."""

    __slots__ = ("error", "event", "ticket")

    def __init__(self, ticket: int, event: Event) -> None:
        self.ticket = ticket
        self.event = event
        self.error: ZkbrokerError | None = None


class _Changed:
    """What the source sets: everything is to be read again."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.set = changed


class Cluster:
    """A view of a cluster that is kept current, and connections to its brokers.

    Args:
        source: `ZooKeeperSource`, `StaticSource` or `SingleAddressSource`.
        runtime: `threads`, `gevent` or a `Runtime`.
        client_id: sent with every request.
        max_age_ms: when to read again without a cause; -1 for never.
        request_timeout_ms: of requests to brokers, and of the methods here that wait.
        connect_timeout_ms: of connections to brokers.
        send_buffer_bytes: of the connections; -1 leaves the system's.
        receive_buffer_bytes: of the connections; -1 leaves the system's.
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
    ) -> None:
        self.runtime = get_runtime(runtime)
        self._source = source
        self._client_id = client_id
        self._max_age_s = max_age_ms / 1000 if max_age_ms >= 0 else None
        self._request_timeout_ms = request_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        if isinstance(source, ZooKeeperSource) and source.runtime is None:
            source.runtime = self.runtime
        self._connections = Connections(self.runtime, self._dial, connect_timeout_ms / 1000 + 1)
        self._loop = OwnerLoop(
            self.runtime,
            self._read_source,
            name="metadata reading",
            logger=logger,
            retry_s=_RETRY_S,
            foreseen=(ZkbrokerError,),
        )
        self._lock = self.runtime.lock()
        self._view = View()
        self._wanted: set[str] = set()
        self._added: set[str] = set()
        self._all_again = False
        self._all_read_at = time.monotonic()
        self._tickets = 0
        self._waiters: list[_Waiter] = []
        self._watchers = Watchers(self.runtime)
        self._started = False
        self._closed = False

    # -- life cycle

    def start(self) -> Self:
        """Connect to the source and read the brokers.

        Raises:
            ZkbrokerError: the source cannot be reached; says what to change.
        """
        if self._started:
            return self
        try:
            self._source.start(self._connections, _Changed(self._source_changed))
            self._view = self._source.read(())
        except BaseException:
            self._source.close()
            raise
        self._started = True
        self._loop.start(self._max_age_s)
        return self

    def close(self, timeout_s: float = 5.0) -> None:
        """Close the connections and the source; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._connections.close()
        # First of all, so that what fails when the source closes is no failure.
        self._loop.close(0)
        self._source.close()
        self._loop.close(timeout_s)
        self._answer_waiters(2**62, ClientError("the cluster was closed"))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- what is known

    def brokers(self) -> dict[int, BrokerAddress]:
        """Return the live brokers by id."""
        return dict(self._view.brokers)

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the broker that leads a partition, None where none is known; does not wait."""
        found = self._partition(topic, partition)
        return None if found is None else found.leader

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the epoch of a partition's leader, -1 where it is not known; does not wait."""
        found = self._partition(topic, partition)
        return NO_EPOCH if found is None else found.leader_epoch

    def _partition(self, topic: str, partition: int) -> PartitionInfo | None:
        known = self._view.topics.get(topic)
        if known is None or isinstance(known, ProtocolError):
            return None
        # Partitions are numbered from 0 without gaps, save in trees that were written by hand.
        if partition < len(known) and known[partition].partition == partition:
            return known[partition]
        return next((each for each in known if each.partition == partition), None)

    def known_partitions(self, topic: str) -> Partitions | None:
        """Return the partitions of a topic as last read, None where unknown; does not wait."""
        known = self._view.topics.get(topic)
        return None if isinstance(known, ProtocolError) else known

    def partitions(
        self, topic: str, *, create: bool = False, timeout_s: float | None = None
    ) -> Partitions:
        """Return the partitions of a topic by number; ask where they are not known.

        Args:
            topic: its name.
            create: have a broker create it where it does not exist and the brokers' settings
                allow that, and wait for its partitions to be led.
            timeout_s: how long that may take; the request time-out by default.

        Raises:
            UnknownTopicOrPartition: it does not exist (and is not created).
            LeaderNotAvailable: it was created, and is not led yet.
            ZkbrokerError: the source or the brokers cannot be reached.
        """
        cached = self.known_partitions(topic)
        if cached and (not create or any(each.leader is not None for each in cached)):
            return cached
        deadline = time.monotonic() + self._seconds(timeout_s)
        known = self._read_topic(topic, deadline)
        if isinstance(known, UnknownTopicOrPartition) and create:
            request_creation(self.any_connection(), topic)
        while create and (
            isinstance(known, UnknownTopicOrPartition | LeaderNotAvailable)
            or (not isinstance(known, ProtocolError) and all(p.leader is None for p in known))
        ):
            if time.monotonic() >= deadline:
                raise LeaderNotAvailable(
                    f"topic {topic} has no partition with a leader: the broker that hosts it is "
                    "down, or did not take it up yet"
                )
            self.runtime.sleep(_CREATION_POLL_S)
            known = self._read_topic(topic, deadline)
        if isinstance(known, ProtocolError):
            raise known
        return known

    def _read_topic(self, topic: str, deadline: float) -> Partitions | ProtocolError:
        left_s = max(_LEAST_READING_S, deadline - time.monotonic())
        self.refresh([topic], timeout_s=left_s)
        return self._view.topics.get(topic) or UnknownTopicOrPartition(
            f"topic {topic} does not exist"
        )

    def topics(self) -> list[str]:
        """Ask for the names of all topics, internal ones too."""
        found = self._source.all_topics()
        if found is not None:
            return found
        return ask_again(
            self, [], lambda: all_topics(self.any_connection()), timeout_s=self._seconds(None)
        )

    def refresh(
        self, topics: Collection[str] | None = None, *, timeout_s: float | None = None
    ) -> None:
        """Wait until a reading that begins now is in.

        Args:
            topics: what it must cover beside what was asked for before.
            timeout_s: how long to wait; the request time-out by default.

        Raises:
            ZkbrokerError: the source cannot be read.
            RequestTimedOut: it took too long.
        """
        if not self._started or self._closed:
            raise ClientError("the cluster is not started, or was closed")
        seconds = self._seconds(timeout_s)
        with self._lock:
            self._wanted.update(topics or ())
            if topics and not any(map(self._led, topics)):
                self._added.update(topics)
            else:
                self._all_again = True
            self._tickets += 1
            waiter = _Waiter(self._tickets, self.runtime.event())
            self._waiters.append(waiter)
        self._loop.set()
        if not waiter.event.wait(seconds):
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            raise RequestTimedOut(f"the cluster's metadata could not be read within {seconds:g} s")
        if waiter.error is not None:
            raise waiter.error

    def _led(self, topic: str) -> bool:
        """Whether a topic is known, and a leader in it."""
        return any(each.leader is not None for each in self.known_partitions(topic) or ())

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change of the view; returns what ends that.

        It runs in the owner loop: only set an event in it.
        """
        return self._watchers.add(callback)

    # -- connections

    def connection(self, broker_id: int, lane: str = "") -> BrokerConnection:
        """Return a connection to a broker, opened where there is none.

        Args:
            broker_id: one of `brokers()`.
            lane: connections of different lanes are different ones; a long poll blocks its lane.

        Raises:
            BrokerUnavailable: the broker is not registered or cannot be reached.
        """
        only = self._source.only_connection()
        if only is not None:
            return only
        address = self._view.brokers.get(broker_id)
        if address is None:
            raise BrokerUnavailable(f"broker {broker_id} is not registered")
        return self._connections.get(address, lane)

    def any_connection(self, lane: str = "") -> BrokerConnection:
        """Return a connection to some broker that can be reached.

        Raises:
            NoBrokersAvailable: none can.
        """
        only = self._source.only_connection()
        if only is not None:
            return only
        failures = []
        ids = list(self._view.brokers)
        random.shuffle(ids)
        for broker_id in ids:
            try:
                return self.connection(broker_id, lane)
            except BrokerUnavailable as error:
                failures.append(str(error))
        raise NoBrokersAvailable(
            "no broker can be reached: " + ("; ".join(failures) or "none is registered")
        )

    def _dial(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(
            self.runtime,
            host,
            port,
            client_id=self._client_id,
            connect_timeout_ms=self._connect_timeout_ms,
            request_timeout_ms=self._request_timeout_ms,
            send_buffer_bytes=self._send_buffer_bytes,
            receive_buffer_bytes=self._receive_buffer_bytes,
        )

    def _seconds(self, timeout_s: float | None) -> float:
        return self._request_timeout_ms / 1000 if timeout_s is None else timeout_s

    # -- the owner loop

    def _source_changed(self) -> None:
        self._all_again = True
        self._loop.set()

    def _read_source(self) -> float | None:
        """Read the source once, and answer those who asked for it before."""
        with self._lock:
            # Woken by time alone, it reads everything too.
            began = time.monotonic()
            everything = self._all_again or not self._added
            wanted = set(self._wanted if everything else self._added)
            self._all_again = False
            self._added.clear()
            ticket = self._tickets
        try:
            found = self._source.read(wanted)
            if everything:
                self._all_read_at = began
            else:
                found = View(found.brokers, {**self._view.topics, **found.topics})
            self._publish(found)
        except ZkbrokerError as error:
            self._all_again = True
            self._answer_waiters(ticket, error)
            raise
        except Exception as error:
            self._all_again = True
            unforeseen = ClientError(f"the cluster's metadata could not be read: {error!r}")
            self._answer_waiters(ticket, unforeseen)
            raise
        self._answer_waiters(ticket, None)
        # What is known stays; what was missed is read when the source is back.
        if self._max_age_s is None:
            return None
        return max(0.0, self._all_read_at + self._max_age_s - time.monotonic())

    def _publish(self, view: View) -> None:
        before, self._view = self._view, view
        with self._lock:
            # A topic that does not exist is dropped; the next caller asks for it again.
            self._wanted -= {
                topic
                for topic, known in view.topics.items()
                if isinstance(known, UnknownTopicOrPartition)
            }
        if view.brokers != before.brokers:
            logger.info("brokers changed now=%s", sorted(view.brokers))
            self._connections.drop(lambda address: view.brokers.get(address.id, address) != address)
        if _differs(before, view):
            self._watchers.tell()

    def _answer_waiters(self, ticket: int, error: ZkbrokerError | None) -> None:
        with self._lock:
            served = [waiter for waiter in self._waiters if waiter.ticket <= ticket]
            self._waiters = [waiter for waiter in self._waiters if waiter.ticket > ticket]
        for waiter in served:
            waiter.error = error
            waiter.event.set()


def _differs(before: View, after: View) -> bool:
    def comparable(view: View) -> object:
        topics = {
            topic: str(known) if isinstance(known, ProtocolError) else known
            for topic, known in view.topics.items()
        }
        return view.brokers, topics

    return comparable(before) != comparable(after)
