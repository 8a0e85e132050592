"""The owner loop that reads a cluster's source and publishes views.

                    watch fires / refresh asked / too old
      (waiting) ───────────────────────────────────────▶ read the source
          ▲                                                     │
          └─ wake the waiters and watchers ◀─── publish a view ─┘

If only unknown topics, or topics without leaders, are requested, only those are read: a producer to
thousands of topics discovers them one after the other.

Invariants: one task reads the source; all others take the view that it published last, without a
lock. A `refresh` returns only after a reading that began later than the call. A view is never older
than `max_age_s` while the source can be read; while it cannot, the last view stays.
"""

import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from zkbroker.client.any_broker import AnyBroker
from zkbroker.client.missing_leaders import MissingLeaders
from zkbroker.client.source import ClusterSource
from zkbroker.client.view import Partitions, View
from zkbroker.errors import (
    ClientError,
    ProtocolError,
    RequestTimedOut,
    UnknownTopicOrPartition,
    ZkbrokerError,
)
from zkbroker.runtime import Event, OwnerLoop, Runtime

logger = logging.getLogger(__name__)

_RETRY_S = 0.2


@dataclass(slots=True, eq=False)
class _ReadingWaiter:
    """A caller that waits for a reading with a number of at least `ticket`."""

    ticket: int
    event: Event
    error: ZkbrokerError | None = None


class _Changed:
    """The event of a source, after which everything is read again."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.set = changed


class ViewReader:
    """Keeps a view of a source current.

    Args:
        source: is started and closed here.
        runtime: of the cluster.
        max_age_s: the age at which the view is read again; None for never.
    """

    def __init__(self, source: ClusterSource, runtime: Runtime, max_age_s: float | None) -> None:
        self._source = source
        self._runtime = runtime
        self._max_age_s = max_age_s
        self._loop = OwnerLoop(
            runtime,
            self._read_source,
            name="metadata reading",
            logger=logger,
            retry_s=_RETRY_S,
            foreseen=(ZkbrokerError,),
        )
        self._lock = runtime.lock()
        self._missing = MissingLeaders(runtime)
        self._wanted: set[str] = set()
        self._added: set[str] = set()
        self._asked: set[str] = set()  # topics of refreshes since the last reading began
        self._all_again = False
        self._all_read_at = time.monotonic()
        self._tickets = 0
        self._waiters: list[_ReadingWaiter] = []
        self._watchers: list[Callable[[], None]] = []
        self._open = False
        self._brokers: AnyBroker | None = None
        self.view = View()
        """The last view that was read."""

    def start(self, brokers: AnyBroker) -> None:
        """Connect to the source and read the brokers.

        Raises:
            ZkbrokerError: the source cannot be reached; says what to change.
        """
        self._brokers = brokers
        try:
            self._source.start(brokers, _Changed(self._source_changed))
            self.view = self._source.read(())
        except BaseException:
            self._source.close()
            raise
        self._open = True
        self._loop.start(self._max_age_s)

    def close(self, timeout_s: float) -> None:
        """End the loop and the source."""
        self._open = False
        # First, so that failures caused by closing the source are not reported.
        self._loop.close(0)
        self._source.close()
        self._loop.close(timeout_s)
        self._answer_waiters(2**62, ClientError("the cluster was closed"))

    def known(self, topic: str) -> Partitions | None:
        """Return the partitions of a topic as last read, None where unknown."""
        known = self.view.topics.get(topic)
        return None if isinstance(known, ProtocolError) else known

    def refresh(self, topics: Collection[str] | None, seconds: float) -> None:
        """Wait for a reading that begins now; see `Cluster.refresh`."""
        if not self._open:
            raise ClientError("the cluster is not started, or was closed")
        with self._lock:
            self._wanted.update(topics or ())
            self._asked.update(topics or ())
            if topics and not any(map(self._led, topics)):
                self._added.update(topics)
            else:
                self._all_again = True
            self._tickets += 1
            waiter = _ReadingWaiter(self._tickets, self._runtime.event())
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
        """Whether a topic is known and one of its partitions has a leader."""
        return any(each.leader is not None for each in self.known(topic) or ())

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called after every change; returns a function that ends it.

        The owner loop calls it, without a lock, once the change can be read.
        """
        with self._lock:
            self._watchers.append(callback)

        def end() -> None:
            with self._lock:
                if callback in self._watchers:
                    self._watchers.remove(callback)

        return end

    # -- the owner loop

    def _source_changed(self) -> None:
        with self._lock:  # else a reading that begins just now could undo it
            self._all_again = True
        self._loop.set()

    def _read_source(self) -> float | None:
        """Read the source once, and wake the callers that asked before it began."""
        with self._lock:
            # When only time woke the loop, everything is read too.
            began = time.monotonic()
            everything = self._all_again or not self._added
            wanted = set(self._wanted if everything else self._added)
            self._all_again = False
            self._added.clear()
            self._asked.clear()
            ticket = self._tickets
        try:
            found = self._missing.complete(self._source.read(wanted), self.view)
            if everything:
                self._all_read_at = began
            else:
                found = View(found.brokers, {**self.view.topics, **found.topics})
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
        # The last view stays; changes are read when the source is back.
        if self._max_age_s is None:
            return None
        return max(0.0, self._all_read_at + self._max_age_s - time.monotonic())

    def _publish(self, view: View) -> None:
        before, self.view = self.view, view
        with self._lock:
            # A topic that does not exist is dropped; the next caller asks for it again. One that
            # asked during this reading is answered by the next one, and the topic may exist by now.
            self._wanted -= {
                topic
                for topic, known in view.topics.items()
                if isinstance(known, UnknownTopicOrPartition) and topic not in self._asked
            }
        if view.brokers != before.brokers:
            logger.info("brokers changed now=%s", sorted(view.brokers))
            assert self._brokers is not None
            self._brokers.connections.drop(
                lambda address: view.brokers.get(address.id, address) != address
            )
        if _differs(before, view):
            with self._lock:
                watchers = list(self._watchers)
            for watcher in watchers:
                watcher()
        self._missing.note(view)

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
