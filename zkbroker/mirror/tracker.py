"""Tracks how far each partition of a source has arrived in the target.

    taken ──▶ [ticket ticket ticket …] ──▶ arrived: the position after the last ticket of an
               ^ oldest, not done yet       unbroken row of done ones

Invariants: a position has arrived only when everything before it in the same reading was stored by
    the target, or dropped by a rule that the user chose. A partition that is given up and comes
    back begins a new reading: answers for the old one change nothing.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from zkbroker.consumer.fetching.partition import Chunk, ReadProgress
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey


@dataclass(frozen=True, slots=True)
class Place:
    """A position of the source in the target: the next offset of a target partition."""

    topic: str
    partition: int
    offset: int


class TakenChunk:
    """One taken chunk; done when all of its parts are.

    Attributes:
        place: its end in the target; None if that is not one place.
        first: whether it is the first chunk of its reading.
    """

    __slots__ = ("_left", "_tracker", "first", "next_offset", "partition", "place", "size")

    def __init__(
        self, tracker: "Tracker", partition: "_Partition", next_offset: int, size: int, first: bool
    ) -> None:
        self._tracker = tracker
        self.partition = partition
        self.next_offset = next_offset
        self.first = first
        self.size = size
        self.place: Place | None = None
        # 1 until all parts are added; see `finish`.
        self._left = 1

    @property
    def done(self) -> bool:
        """Whether all of its parts have arrived."""
        return self._left == 0

    def add(self) -> None:
        """Count one more part in flight."""
        with self._tracker.lock:
            self._left += 1

    def put_back(self) -> None:
        """Undo `take`: nothing of the chunk was sent, and it will be taken again."""
        self._tracker.put_back(self)

    def begins_at(self, offset: int, place: Place) -> None:
        """Record the beginning of a first chunk in the target."""
        with self._tracker.lock:
            self.partition.begin = offset, place

    def finish(self, place: Place | None = None) -> None:
        """Record that one part has arrived.

        Args:
            place: the end of the chunk, if this is the last part.
        """
        with self._tracker.lock:
            if place is not None and (self.place is None or place.offset > self.place.offset):
                self.place = place
            self._left -= 1
            if not self._left:
                self._tracker.note_done(self)


@dataclass(slots=True, eq=False)
class _Partition:
    """One reading of one partition."""

    progress: ReadProgress
    row: deque[TakenChunk] = field(default_factory=deque)
    arrived: int | None = None
    reported: int | None = None
    taken: bool = False
    begin: tuple[int, Place] | None = None
    sync: tuple[int, Place] | None = None
    synced: tuple[int, Place] | None = None


class Tracker:
    """Everything of one stream that is in flight.

    Args:
        runtime: for events.
        on_room: called when a ticket is done; must not wait.
    """

    def __init__(self, runtime: Runtime, on_room: Callable[[], None]) -> None:
        self.lock = runtime.guard()
        self._on_room = on_room
        self._changed = runtime.event()
        self._partitions: dict[PartitionKey, _Partition] = {}
        self.open_bytes = 0
        """Bytes of chunks that are not done, those of old readings included."""

    def take(self, chunk: Chunk) -> TakenChunk:
        """Begin a chunk; call `finish` once after all of its parts are added."""
        key = chunk.partition.key
        size = len(chunk.records)
        with self.lock:
            found = self._partitions.get(key)
            if found is None or found.progress is not chunk.progress:
                found = _Partition(chunk.progress)
                # The partition may have been given away while its topic was looked up.
                if chunk.partition.progress is chunk.progress:
                    self._partitions[key] = found
            ticket = TakenChunk(self, found, chunk.next_offset, size, not found.taken)
            # After a reset the first chunk only moves the position.
            found.taken = found.taken or size > 0
            found.row.append(ticket)
            self.open_bytes += size
        return ticket

    def put_back(self, ticket: TakenChunk) -> None:
        """Forget the latest ticket of a partition, of which nothing was sent."""
        with self.lock:
            ticket.partition.row.remove(ticket)
            ticket.partition.taken = not ticket.first
            self.open_bytes -= ticket.size
        self._changed.set()

    def note_done(self, ticket: TakenChunk) -> None:
        """Advance over done tickets; a ticket calls this, under the lock."""
        self.open_bytes -= ticket.size
        partition = ticket.partition
        row = partition.row
        while row and row[0].done:
            first = row.popleft()
            partition.arrived = first.next_offset
            if first.place is not None:
                partition.sync = first.next_offset, first.place
        self._changed.set()
        self._on_room()

    def arrived(self, keys: Iterable[PartitionKey] | None = None) -> dict[PartitionKey, int]:
        """Return the positions that moved since the last `reported`."""
        with self.lock:
            return {
                key: each.arrived
                for key, each in self._chosen(keys)
                if each.arrived is not None and each.arrived != each.reported
            }

    def reported(self, positions: dict[PartitionKey, int]) -> None:
        """Record committed positions."""
        with self.lock:
            for key, position in positions.items():
                if key in self._partitions:
                    self._partitions[key].reported = position

    def take_syncs(self) -> list[tuple[PartitionKey, int, Place]]:
        """Return source positions with their places, each once."""
        found: list[tuple[PartitionKey, int, Place]] = []
        with self.lock:
            for key, each in self._partitions.items():
                if each.begin is not None:
                    found.append((key, *each.begin))
                    each.begin = None
                if each.sync is not None and each.sync != each.synced:
                    each.synced = each.sync
                    found.append((key, *each.sync))
        return found

    def wait_done(self, keys: Iterable[PartitionKey] | None, timeout_s: float) -> bool:
        """Wait until nothing of these partitions is in flight; False on a time-out.

        Args:
            keys: partitions; None for all.
            timeout_s: how long.
        """
        wanted = None if keys is None else list(keys)
        deadline = time.monotonic() + timeout_s
        while True:
            self._changed.clear()
            with self.lock:
                if not any(each.row for _, each in self._chosen(wanted)):
                    return True
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self._changed.wait(left_s)

    def partitions(self) -> list[PartitionKey]:
        """Return the partitions of which a chunk was taken."""
        with self.lock:
            return list(self._partitions)

    def drop(self, keys: Iterable[PartitionKey]) -> None:
        """Forget partitions that other members own now."""
        with self.lock:
            for key in keys:
                self._partitions.pop(key, None)

    def _chosen(self, keys: Iterable[PartitionKey] | None) -> list[tuple[PartitionKey, _Partition]]:
        if keys is None:
            return list(self._partitions.items())
        return [(key, self._partitions[key]) for key in keys if key in self._partitions]
