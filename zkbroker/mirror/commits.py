"""Commits of the position in a source, which give the delivery guarantee.

    at least once     once the target has acknowledged messages, their offset is committed in the
                      source
    exactly once      the position is part of the target's transaction with the messages: see
                      `mirror.transactions`

Invariant: a position is committed only after everything before it is stored in the target.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.errors import ZkbrokerError
from zkbroker.mirror.sources import LOST, Source
from zkbroker.mirror.tracker import Tracker
from zkbroker.producer import Producer
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outlet:
    """The producer for a chunk, and the first offset to send."""

    producer: Producer
    begin: int


class CommitStep(Protocol):
    """How positions are committed."""

    failures: int

    @property
    def idle(self) -> bool:
        """Whether everything sent is committed."""

    def open(self, chunk: Chunk) -> AbstractContextManager[Outlet | None]:
        """Prepare to send a chunk, which the block then does. None: the partition was lost.

        Raises:
            TransactionError: start over.
            ZkbrokerError: the target is not ready.
        """

    def may_repeat(self, error: BaseException) -> bool:
        """Whether a batch with this error is sent again, after `commit` has raised."""

    def commit(self) -> Mapping[PartitionKey, int]:
        """Commit the positions that have arrived, and return them.

        Raises:
            TransactionError: nothing was committed; start over.
        """

    def release(self, partitions: Collection[PartitionKey]) -> None:
        """Commit the positions of partitions that are about to be given away."""

    def drop(self, partitions: Collection[PartitionKey] | None) -> None:
        """Forget lost partitions, or all for None; commit nothing of them."""


class FlushThenCommit:
    """At least once.

    Args:
        source: returns the stream's present member, which keeps the positions.
        producer: of the mirror.
        tracker: has the positions that have arrived.
        flush_timeout_s: how long a release waits for messages in flight.
    """

    idle = True

    def __init__(
        self,
        source: Callable[[], Source],
        producer: Producer,
        tracker: Tracker,
        flush_timeout_s: float,
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
                "partitions given away before the target answered for all: the rest is "
                "mirrored again partitions=%d",
                len(partitions),
            )
        self._commit(self._tracker.arrived(partitions))

    def _commit(self, positions: dict[PartitionKey, int]) -> Mapping[PartitionKey, int]:
        if not positions:
            return {}
        try:
            self._source().commit(positions)
        except LOST as error:
            logger.info("commit refused, the partitions have gone error=%s", error)
            return {}
        except ZkbrokerError as error:
            # The next step tries again; nothing is lost, but more might be mirrored again.
            self.failures += 1
            logger.warning("commit failed error=%s", error)
            return {}
        self._tracker.reported(positions)
        return positions
