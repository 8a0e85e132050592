"""The task of one fetcher: it chooses the partitions of the next fetch, in any generation of Kafka.

    partitions with room ──_fetch──▶ broker ──answer──▶ a chunk for each partition with data

Invariants:
- A fetcher never waits for a stream: it leaves a partition without room out until there is room, so
  that quiet and busy partitions never hold each other up.
- It fetches under the partition's current `ReadProgress`; an answer that comes after a seek, a
  reset or the loss of the partition is dropped.
- A partition whose leader has moved, or whose broker is gone, is given back; its position stays.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

from zkbroker.client import Cluster
from zkbroker.consumer.fetching.partition import ConsumedPartition, ReadProgress
from zkbroker.errors import ClientError, ProtocolError, RegistryError
from zkbroker.runtime import Runtime, Task
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

GiveBack = Callable[[Iterable[ConsumedPartition]], None]

_IDLE_S = 1.0
_ROOM_POLL_S = 0.01
_ROOM_SOON_S = 1.0


class FetchLoop(ABC):
    """Fetches from one broker in its own task; the task starts with the constructor.

    Args:
        broker_id: the broker.
        number: which of its fetchers this is.
        leaders: of the partitions.
        runtime: the connector's.
        give_back: takes partitions whose leader must be looked up again.
    """

    idle_s: float = 0.0
    """Pause after an answer without data, in s, for brokers that answer at once."""

    def __init__(
        self,
        broker_id: int,
        number: int,
        *,
        leaders: Cluster,
        runtime: Runtime,
        give_back: GiveBack,
    ) -> None:
        self._broker_id = broker_id
        self._leaders = leaders
        self._give_back = give_back
        self._lock = runtime.lock()
        self._partitions: dict[PartitionKey, ConsumedPartition] = {}
        self._wake = runtime.event()
        self._stopping = False
        self._room_seen_at = time.monotonic()
        self.asking_since: float | None = None
        """When the fetch in flight began, on the monotonic clock; None without one."""
        self.fetches = 0
        """Number of the broker's answers so far."""
        self.fetched_bytes = 0
        """Bytes of message sets in them."""
        self._task: Task = runtime.spawn(self._run, name=f"fetcher-{broker_id}-{number}")

    @abstractmethod
    def _fetch(
        self, partitions: list[tuple[ConsumedPartition, ReadProgress]], *, hurry: bool
    ) -> bool:
        """Fetch once; return whether anything came."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, even while a task waits for it; from any task."""

    def add(self, partition: ConsumedPartition) -> None:
        """Fetch one more partition."""
        with self._lock:
            self._partitions[partition.key] = partition
        self._wake.set()

    def topics(self) -> set[str]:
        """Return the topics of its partitions."""
        with self._lock:
            return {topic for topic, _ in self._partitions}

    def take_moved(self) -> list[ConsumedPartition]:
        """Take away the partitions that another broker leads by now; does not wait.

        A request for them may be in flight to a broker that hangs: when no partition is left, the
        connection is closed.
        """
        with self._lock:
            moved = [each for each in self._partitions.values() if self._moved(each)]
            for each in moved:
                del self._partitions[each.key]
            idle = not self._partitions
        if moved and idle:
            self._disconnect()
        return moved

    def _moved(self, partition: ConsumedPartition) -> bool:
        return self._leaders.leader(*partition.key) not in (self._broker_id, None)

    def wake(self) -> None:
        """Look again: a stream has room, a partition was sought or revoked."""
        self._room_seen_at = time.monotonic()
        self._wake.set()

    def stop(self) -> None:
        """Stop fetching, and drop answers on their way. Does not wait."""
        self._stopping = True
        self._wake.set()
        self._disconnect()

    def join(self, timeout_s: float) -> bool:
        """Wait until the task has ended; False when it has not."""
        return self._task.join(timeout_s)

    # -- the task

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            wanted, full = self._fetchable()
            if not wanted:
                self._wake.wait(_IDLE_S)
                continue
            self.asking_since = time.monotonic()
            try:
                came = self._fetch(wanted, hurry=full)
            except (ProtocolError, ClientError, RegistryError) as error:
                if not self._stopping:
                    self._give_all_back(error)
                continue
            except Exception as error:
                # A defect of this library: log the traceback, and retry the partitions.
                logger.exception("fetcher failed broker=%d", self._broker_id)
                self._give_all_back(error)
                continue
            finally:
                self.asking_since = None
            if not came:
                self._wake.wait(_ROOM_POLL_S if full else self.idle_s)

    def _fetchable(self) -> tuple[list[tuple[ConsumedPartition, ReadProgress]], bool]:
        """Return the partitions to fetch with their readings, and whether a queue is full."""
        wanted = []
        full = False
        with self._lock:
            for key, partition in list(self._partitions.items()):
                progress = partition.progress
                if partition.revoked:
                    del self._partitions[key]
                elif partition.halted:
                    continue
                elif partition.has_room:
                    wanted.append((partition, progress))
                else:
                    full = True
        # A reader that has taken nothing for long can wait for one long poll more.
        return wanted, full and time.monotonic() - self._room_seen_at < _ROOM_SOON_S

    def _give_all_back(self, error: Exception) -> None:
        with self._lock:
            partitions, self._partitions = self._partitions, {}
        if not partitions:
            return  # `take_moved` took them away and closed the connection
        logger.warning(
            "fetch failed broker=%d partitions=%d error=%s",
            self._broker_id,
            len(partitions),
            error,
        )
        self._give_back(partitions.values())

    def _drop(self, lost: list[ConsumedPartition]) -> None:
        given_back = []
        with self._lock:
            for partition in lost:
                # A later ownership of the same partition may have taken its place.
                if self._partitions.get(partition.key) is partition:
                    del self._partitions[partition.key]
                    given_back.append(partition)
        self._give_back(given_back)
