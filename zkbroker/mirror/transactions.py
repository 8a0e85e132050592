"""Exactly once: messages and their source position are in one transaction of the target.

    a partition comes ──▶ its transactional id is initialized: the former owner is fenced, and the
                          open transaction is aborted
                      ──▶ its position is read from the target; earlier messages are skipped
    chunks            ──▶ begin, messages …
    commit            ──▶ … the position, commit; then the position is committed in the source, too

Invariants: every partition of a source has its own transactional id and producer, so a member that
    was declared dead is fenced by its successor. A position is committed with exactly the messages
    before it. If a transaction fails, the stream leaves its group, joins it again and reads from
    the committed position.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from zkbroker.consumer.fetching.partition import Chunk, ReadProgress
from zkbroker.errors import ConfigError, ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.mirror.commits import Outlet
from zkbroker.mirror.positions import Positions
from zkbroker.mirror.sources import LOST, Source
from zkbroker.producer import Producer
from zkbroker.producer.errors import (
    Cancelled,
    ProducerClosed,
    TransactionAbortable,
    TransactionError,
)
from zkbroker.producer.outcomes import may_pass
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ABORT_S = 2.0
_AT_ONCE = 8
_OF_THE_PRODUCER = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


def ends_transaction(error: BaseException) -> bool:
    """Whether a batch failed only because its transaction did."""
    if isinstance(error, TransactionError | Cancelled | ProducerClosed) or may_pass(error):
        return True
    return isinstance(error, ProtocolError) and error.code in _OF_THE_PRODUCER


class _Held:
    """An assigned partition of the source, and its producer."""

    __slots__ = ("ended", "lock", "next_offset", "open", "position", "producer", "progress")

    def __init__(self, producer: Producer, runtime: Runtime) -> None:
        self.producer = producer
        self.lock = runtime.lock()
        self.position: int | None = None  # the position in the target at the time of assignment
        self.progress: ReadProgress | None = None
        self.open = False
        self.ended = False
        self.next_offset = 0


class MirrorTransactions:
    """The commit step of a stream that mirrors exactly once.

    Args:
        source: returns the stream's present member.
        make_producer: makes a producer with a transactional id, for a partition of the source.
        positions: of the source.
        end_of: returns the log end of a source partition.
        runtime: of the mirror.
        timeout_s: how long to wait for the target.
    """

    def __init__(
        self,
        source: Callable[[], Source],
        *,
        make_producer: Callable[[PartitionKey], Producer],
        positions: Positions,
        end_of: Callable[[PartitionKey], int],
        runtime: Runtime,
        timeout_s: float,
    ) -> None:
        self._source = source
        self._make_producer = make_producer
        self._positions = positions
        self._end_of = end_of
        self._runtime = runtime
        self._timeout_s = timeout_s
        self._lock = runtime.lock()
        self._held: dict[PartitionKey, _Held] = {}
        self.failures = 0

    @property
    def idle(self) -> bool:
        """Whether everything sent is committed."""
        return not any(each.open for each in list(self._held.values()))

    # -- sending

    @contextmanager
    def open(self, chunk: Chunk) -> Iterator[Outlet | None]:
        held = self._take(chunk)
        if held is None:
            yield None
            return
        with held.lock:
            if held.ended or held.position is None:
                yield None
                return
            if chunk.next_offset > held.position and not held.open:
                held.producer.begin()
                held.open = True
                held.next_offset = held.position
            yield Outlet(held.producer, max(held.position, chunk.offset))
            # Not if the block failed: a commit before the next attempt must not pass the chunk.
            held.next_offset = max(held.position, chunk.next_offset)

    def _take(self, chunk: Chunk) -> _Held | None:
        key = chunk.partition.key
        with self._lock:
            held = self._held.get(key)
        if held is not None and held.progress is not None and held.progress is not chunk.progress:
            # A new reading of a partition that never went away: messages sent before count.
            self._end({key: held})
            held = None
        if held is None:
            # Fence all assigned partitions first: an open transaction of a dead member in one of
            # them would delay reading the positions. The chunk's own comes first, so that its loss
            # while the others wait for the target is seen below.
            for each in dict.fromkeys((key, *self._source().positions())):
                self._take_id(each)
            with self._lock:
                held = self._held.get(key)
            if held is None:
                return None  # given away meanwhile
        if held.position is None:
            self._find_position(held, chunk)
        held.progress = chunk.progress
        return held

    def _take_id(self, key: PartitionKey) -> None:
        with self._lock:
            if key in self._held:
                return
        producer = self._make_producer(key)
        try:
            producer.init_transactions(self._timeout_s)
        except BaseException:
            _close(producer, 0.0)
            raise
        with self._lock:
            self._held[key] = _Held(producer, self._runtime)

    def _find_position(self, held: _Held, chunk: Chunk) -> None:
        key = chunk.partition.key
        found = self._positions.read(self._timeout_s).get(key)
        if found is None:
            held.position = chunk.offset
            return
        end = self._end_of(key)
        if found > end:
            raise ConfigError(
                f"{key[0]}-{key[1]} was mirrored up to {found}, and the source's log ends at "
                f"{end}: its topic was created again, or lost messages; to start over give another "
                "exactly.once.id"
            )
        if chunk.offset > found:
            logger.warning(
                "messages are gone from the source, or were skipped by its group "
                "partition=%s-%d mirrored_to=%d next=%d",
                *key,
                found,
                chunk.offset,
            )
        held.position = found

    def may_repeat(self, error: BaseException) -> bool:
        return ends_transaction(error)

    # -- ending transactions

    def commit(self) -> Mapping[PartitionKey, int]:
        with self._lock:
            held = {key: each for key, each in self._held.items() if each.open}
        return self._commit_in_source(self._commit(held))

    def release(self, partitions: Collection[PartitionKey]) -> None:
        with self._lock:
            held = {key: self._held[key] for key in partitions if key in self._held}
        self._commit_in_source(self._end(held))

    def drop(self, partitions: Collection[PartitionKey] | None) -> None:
        with self._lock:
            gone = [key for key in self._held if partitions is None or key in partitions]
            held = [self._held.pop(key) for key in gone]
        for each in held:
            # Outside its lock, whose holder may be waiting for the target: this ends the wait.
            each.ended = True
        self._for_each(held, lambda each: _close(each.producer, _ABORT_S if each.open else 0.0))

    def _end(self, held: dict[PartitionKey, _Held]) -> dict[PartitionKey, int]:
        """Commit partitions that are given away; their next owner repeats uncommitted messages."""
        positions: dict[PartitionKey, int] = {}
        try:
            positions = self._commit(held, last=True)
        except ZkbrokerError as error:
            self.failures += 1
            logger.warning("partitions given away without a commit error=%s", error)
        self.drop(held)
        return positions

    def _commit(
        self, held: Mapping[PartitionKey, _Held], *, last: bool = False
    ) -> dict[PartitionKey, int]:
        done: dict[PartitionKey, int] = {}
        errors: list[TransactionError] = []

        def commit(item: tuple[PartitionKey, _Held]) -> None:
            key, each = item
            try:
                with each.lock:
                    if each.open and not each.ended:
                        each.producer.send(self._positions.message(key, each.next_offset))
                        each.producer.commit(self._timeout_s)
                        each.open = False
                        each.position = done[key] = each.next_offset
                    each.ended = each.ended or last
            except TransactionError as error:
                errors.append(error)
            except ZkbrokerError as error:
                unknown = TransactionAbortable(f"{key[0]}-{key[1]} was not committed: {error}")
                unknown.__cause__ = error
                errors.append(unknown)

        self._for_each(list(held.items()), commit)
        if errors:
            raise errors[0]
        return done

    def _for_each(self, items: list[T], act: Callable[[T], object]) -> None:
        """Act on all, several at a time, since each waits for answers."""
        for start in range(0, len(items), _AT_ONCE):
            part = items[start : start + _AT_ONCE]
            tasks = [self._runtime.spawn(act, item, name="mirror-commit") for item in part[1:]]
            act(part[0])
            for task in tasks:
                task.join()

    def _commit_in_source(self, positions: dict[PartitionKey, int]) -> Mapping[PartitionKey, int]:
        if positions:
            try:
                self._source().commit(positions)
            except LOST as error:
                logger.info("commit refused, the partitions have gone error=%s", error)
            except ZkbrokerError as error:
                # The guarantee depends only on the target's positions; the next commit updates the
                # source.
                self.failures += 1
                logger.warning("commit failed error=%s", error)
        return positions


def _close(producer: Producer, timeout_s: float) -> None:
    try:
        producer.close(timeout_s)
    except ZkbrokerError as error:
        logger.debug("producer closed error=%s", error)
