"""Batches that wait to be sent, by partition; pure, the clock is an argument.

    append ─▶ open batch ─▶ full batches ─▶ take ─▶ in flight ─▶ resolved
                                ▲                      │
                                └─── put_back ─────────┘

Invariants:
- Batches of one partition leave in the order in which their messages came. A batch that failed goes
  back to its old place, and nothing later leaves before it.
- Without sequence numbers at most one batch of a partition is in flight, so that a retry cannot
  overtake. With them there are as many as the connection takes, once the broker has stored a first
  one: from then on it refuses gaps, while a producer's first batch may have any number.
- A broker remembers five batches of a producer, so at most four later ones may be stored while the
  outcome of one is unknown. Therefore batches of a partition are in flight to one broker only, and
  a retried batch goes alone.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from zkbroker.producer.batch import Batch
from zkbroker.producer.queued_messages import Part


@dataclass(slots=True, eq=False, repr=False)
class PartitionQueue:
    """The batches of one partition.

    Attributes:
        batches: waiting batches, oldest first; the last one may be open.
        in_flight: batches taken and not resolved.
        broker_id: where the batches in flight were sent.
        established: whether the broker knows the numbers of this producer id.
        producer_id: the one under which its batches are numbered; with epoch and next sequence.
        renumber: whether its next new batch needs another producer id.
        stored_sequence: the number after the last one that is known to be stored.
        began_at: `stored_sequence` when the transaction began.
    """

    topic: str
    partition: int
    batches: deque[Batch] = field(default_factory=deque)
    in_flight: list[Batch] = field(default_factory=list)
    broker_id: int = -1
    established: bool = False
    producer_id: int = -1
    producer_epoch: int = -1
    next_sequence: int = 0
    renumber: bool = False
    stored_sequence: int = 0
    began_at: int = 0


@dataclass(kw_only=True, eq=False)
class Accumulator:
    """All partition queues.

    Args:
        linger_s: how long an open batch waits for more.
        batch_messages: a batch with so many messages does not wait.
        batch_limit_messages: most messages of a batch.
        batch_max_bytes: most bytes of a batch, except for a single larger message.
        max_in_flight: most batches of one partition in flight; only one before it is
            established.
    """

    linger_s: float
    batch_messages: int
    batch_max_bytes: int
    max_in_flight: int
    batch_limit_messages: int = 2**31 - 1
    queues: dict[tuple[str, int], PartitionQueue] = field(default_factory=dict, init=False)
    # Queues with waiting batches, so that idle partitions cost nothing.
    _active: dict[tuple[str, int], PartitionQueue] = field(default_factory=dict, init=False)

    def extend(self, partition: int, part: Part, now: float) -> None:
        """Add messages to their partition's open batch, and to new ones after it.

        Args:
            partition: of the messages.
            part: the messages.
            now: `time.monotonic()` of the first of them.
        """
        queued, indices = part
        key = (queued.topic, partition)
        batches = (self._active.get(key) or self._activate(key)).batches
        if not batches or batches[-1].closed:
            batches.append(Batch(*key, now))
        batch = batches[-1]
        if isinstance(indices, range):
            cut = slice(indices.start, indices.stop, indices.step)
            records, sizes = queued.records[cut], queued.sizes[cut]
        else:
            records = [queued.records[index] for index in indices]
            sizes = [queued.sizes[index] for index in indices]
        total = sum(sizes)
        if total <= self.batch_max_bytes - batch.size and len(
            sizes
        ) <= self.batch_limit_messages - len(batch):
            batch.add(part, records, total)
            return
        # Bytes up to and including each message, to find where a batch is full by bisection.
        ends = list(accumulate(sizes))
        start = before = 0
        while True:
            room = self.batch_max_bytes - batch.size
            fit = bisect_right(ends, before + room) - start
            fit = min(fit, self.batch_limit_messages - len(batch))
            if fit <= 0 and not batch.records:
                fit = 1
            if fit > 0:
                stop = start + fit
                taken = ends[stop - 1] - before
                batch.add((queued, indices[start:stop]), records[start:stop], taken)
                start, before = stop, ends[stop - 1]
            if start >= len(sizes):
                return
            batch.closed = True
            batch = Batch(*key, now)
            batches.append(batch)

    def append(self, batch: Batch, now: float) -> None:
        """Add a batch that was made elsewhere, after all others of its partition.

        Args:
            batch: the batch, which takes no more messages.
            now: `time.monotonic()`.
        """
        key = (batch.topic, batch.partition)
        batches = (self._active.get(key) or self._activate(key)).batches
        if batches:
            batches[-1].closed = True
        batch.enter(now)
        batches.append(batch)

    def _activate(self, key: tuple[str, int]) -> PartitionQueue:
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = PartitionQueue(*key)
        self._active[key] = queue
        return queue

    def ready(self, now: float, *, hurry: bool) -> list[PartitionQueue]:
        """Return the partitions whose first batch may leave now, the longest waiting first.

        Args:
            now: `time.monotonic()`.
            hurry: do not let open batches wait for more messages.
        """
        found = [queue for queue in self._active.values() if self.may_leave(queue, now, hurry)]
        found.sort(key=lambda queue: queue.batches[0].first_at)
        return found

    def may_leave(self, queue: PartitionQueue, now: float, hurry: bool) -> bool:
        """Whether the first batch of `queue` may leave now."""
        if not queue.batches or self._full(queue):
            return False
        batch = queue.batches[0]
        if batch.returned:
            # After a failure wait for all batches in flight, so that retries go in order.
            return now >= batch.not_before and not queue.in_flight
        return (
            hurry
            or batch.closed
            or len(batch) >= self.batch_messages
            or now >= batch.first_at + self.linger_s
        )

    def _full(self, queue: PartitionQueue) -> bool:
        in_flight = queue.in_flight
        # A retried batch goes alone: its answer may be lost any number of times, and the batches
        # after it could add up to more than the broker remembers.
        return len(in_flight) >= (self.max_in_flight if queue.established else 1) or (
            len(in_flight) > 0 and in_flight[0].returned
        )

    def next_deadline(self, now: float) -> float | None:
        """Return when `ready` may return more only because time passed; None for never."""
        deadline: float | None = None
        for queue in self._active.values():
            if not queue.batches or self._full(queue):
                continue
            batch = queue.batches[0]
            if batch.returned and queue.in_flight:
                continue
            at = batch.not_before if batch.returned else batch.first_at + self.linger_s
            # Due batches wait for something else: a leader, a free channel, a producer id.
            if at > now and (deadline is None or at < deadline):
                deadline = at
        return deadline

    def take(self, queue: PartitionQueue) -> Batch:
        """Move the first batch of `queue` to those in flight, and return it."""
        batch = queue.batches.popleft()
        batch.closed = True
        queue.in_flight.append(batch)
        if not queue.batches:
            self._active.pop((queue.topic, queue.partition), None)
        return batch

    def remove(self, batch: Batch) -> PartitionQueue:
        """Forget a batch that was in flight and is resolved."""
        queue = self.queues[batch.topic, batch.partition]
        if batch in queue.in_flight:
            queue.in_flight.remove(batch)
        return queue

    def put_back(self, batch: Batch, replacements: Iterable[Batch] | None = None) -> PartitionQueue:
        """Put a batch that was in flight back to its place in the queue.

        Args:
            batch: the batch, taken before and not resolved.
            replacements: batches that go back instead of it, in order.
        """
        queue = self.remove(batch)
        for each in reversed([batch] if replacements is None else list(replacements)):
            each.returned = True
            position = 0
            while position < len(queue.batches) and queue.batches[position].ordinal < each.ordinal:
                position += 1
            queue.batches.insert(position, each)
        self._active[queue.topic, queue.partition] = queue
        return queue

    def discard(self, batch: Batch) -> None:
        """Forget a batch, waiting or in flight."""
        queue = self.remove(batch)
        if batch in queue.batches:
            queue.batches.remove(batch)
        if not queue.batches:
            self._active.pop((queue.topic, queue.partition), None)

    def waiting(self) -> Iterator[Batch]:
        """Yield every batch that is not in flight."""
        for queue in list(self._active.values()):
            yield from list(queue.batches)

    def unresolved(self) -> Iterator[Batch]:
        """Yield every batch that is waiting or in flight."""
        for queue in list(self.queues.values()):
            yield from list(queue.in_flight)
            yield from list(queue.batches)

    @property
    def empty(self) -> bool:
        """Whether no batch waits; batches may be in flight."""
        return not self._active
