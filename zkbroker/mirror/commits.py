"""When the place in a source is written down: the step that makes the promise.

    at least once     what arrived was acknowledged, then it is committed in the source
    exactly once      the place goes into the target's transaction with the messages: see
                      `mirror.transactions`

Invariant: no position is committed before everything in front of it is stored in the target.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.errors import ZkbrokerError
from zkbroker.mirror.sources import LOST, Source
from zkbroker.mirror.tracker import Tracker
from zkbroker.producer import EncodedBatch
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)


class SendsBatches(Protocol):
    """A producer, as far as a stream uses it."""

    def send_batch(self, batch: EncodedBatch) -> None:
        """Send a whole batch to its partition."""


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where a chunk goes, and from which offset of the source on it is to be sent."""

    producer: SendsBatches
    begin: int


class CommitStep(Protocol):
    """How positions are kept."""

    failures: int

    @property
    def idle(self) -> bool:
        """Whether everything that was sent is committed."""

    def open(self, chunk: Chunk) -> AbstractContextManager[Outlet | None]:
        """Prepare for a chunk; inside the block it is sent. None: the partition was lost.

        Raises:
            TransactionError: start over.
            ZkbrokerError: the target is not ready.
        """

    def may_repeat(self, error: BaseException) -> bool:
        """Whether a batch that failed so is sent again, after `commit` has raised."""

    def commit(self) -> Mapping[PartitionKey, int]:
        """Keep what has arrived; returns it.

        Raises:
            TransactionError: nothing of it counts; start over.
        """

    def release(self, partitions: Collection[PartitionKey]) -> None:
        """Keep what has arrived of partitions that are about to be given away."""

    def drop(self, partitions: Collection[PartitionKey] | None) -> None:
        """Forget partitions that have gone, all with None; nothing of them is kept."""


class FlushThenCommit:
    """At least once.

    Args:
        source: keeps the positions.
        producer: of the mirror.
        tracker: knows what has arrived.
        flush_timeout_s: how long to wait for what is under way before a release.
    """

    idle = True

    def __init__(
        self, source: Source, producer: SendsBatches, tracker: Tracker, flush_timeout_s: float
    ) -> None:
        self._source = source
        self._producer = producer
        self._tracker = tracker
        self._flush_timeout_s = flush_timeout_s
        self.failures = 0

    @contextmanager
    def open(self, chunk: Chunk) -> Iterator[Outlet | None]:
        yield Outlet(self._producer, chunk.offset)

    def may_repeat(self, error: BaseException) -> bool:
        return False

    def drop(self, partitions: Collection[PartitionKey] | None) -> None:
        """Nothing to do: the tracker forgets them."""

    def commit(self) -> Mapping[PartitionKey, int]:
        return self._commit(self._tracker.arrived())

    def release(self, partitions: Collection[PartitionKey]) -> None:
        if not self._tracker.wait_done(partitions, self._flush_timeout_s):
            logger.warning(
                "partitions given away before the target answered for all: what is open is "
                "mirrored again partitions=%d",
                len(partitions),
            )
        self._commit(self._tracker.arrived(partitions))

    def _commit(self, positions: dict[PartitionKey, int]) -> Mapping[PartitionKey, int]:
        if not positions:
            return {}
        try:
            self._source.commit(positions)
        except LOST as error:
            logger.info("commit refused, the partitions have gone error=%s", error)
            return {}
        except ZkbrokerError as error:
            # Tried again at the next step; nothing is lost, more would be mirrored again.
            self.failures += 1
            logger.warning("commit failed error=%s", error)
            return {}
        self._tracker.reported(positions)
        return positions
