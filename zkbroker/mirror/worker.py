"""One stream: takes chunks from a member of the source's group and sends their messages.

    source ──chunks──▶ cut, mark, handle ──batches──▶ producer ──answers──▶ tracker ──▶ commit

Invariants: at most `window.bytes` of chunks are in flight, so memory does not grow while the target
    is down; the source is polled all the time, which keeps the membership. A chunk that cannot be
    sent yet is kept and sent before all others. Nothing is committed after a failure. If a
    transaction fails, the stream leaves its group and starts over from the committed positions.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial

from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.errors import (
    ClientError,
    ConfigError,
    CorruptMessage,
    RegistryError,
    ZkbrokerError,
)
from zkbroker.mirror.batches import BatchMaker, MirrorBatch, TopicNotReady
from zkbroker.mirror.commits import CommitStep, FlushThenCommit, Outlet
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.repack import where_corrupt
from zkbroker.mirror.routes import Route, Routes
from zkbroker.mirror.sources import Source
from zkbroker.mirror.target import MirrorTarget
from zkbroker.mirror.tracker import Place, TakenChunk, Tracker
from zkbroker.producer import EncodedBatch
from zkbroker.producer.errors import TransactionError
from zkbroker.producer.outcomes import may_pass
from zkbroker.runtime import Event, Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_POLL_S = 0.5
_AGAIN_S = 0.2
_CLOSE_S = 10.0
_REPORT_EVERY = 3


class Worker:
    """A stream of one source.

    Args:
        name: of the source and the stream, for the log.
        config: of the mirror.
        routes: of the source.
        target: where to.
        make_source: makes the member; called with `on_release` and `on_lost`.
        maker: makes the batches; its counts are those of the stream.
        runtime: of the mirror.
        on_failure: called with an error that ends the mirror.
        on_syncs: called before each commit with pairs of source and target positions.
        make_step: makes the step that mirrors exactly once; None for at least once.
    """

    def __init__(
        self,
        name: str,
        config: MirrorConfig,
        *,
        routes: Routes,
        target: MirrorTarget,
        make_source: Callable[..., Source],
        maker: BatchMaker,
        runtime: Runtime,
        on_failure: Callable[[BaseException], object],
        on_syncs: Callable[[list[tuple[PartitionKey, int, Place]]], object],
        make_step: Callable[[Callable[[], Source]], CommitStep] | None = None,
    ) -> None:
        self.name = name
        self._config = config
        self._routes = routes
        self._target = target
        self._maker = maker
        self._runtime = runtime
        self._on_failure = on_failure
        self._on_syncs = on_syncs
        self._stop: Event = runtime.event()
        self._failed = False
        self._kept: deque[Chunk] = deque()
        self._awaited: tuple[Chunk, str] | None = None
        """A chunk, and a topic that the message handler named for it and that is not ready."""
        self._commit_due = time.monotonic() + config.commit_every_s
        self._leaving = False
        self._failed_in_a_row = 0
        """Transactions that failed since the last committed one."""
        self.counts = maker.counts
        self.tracker = Tracker(runtime, self._wake)
        self._make_source = partial(make_source, on_release=self._release, on_lost=self._lost)
        # Before the source: if it fails, no member is left behind in the group, and a release may
        # come while the source is being made.
        self._step: CommitStep = (
            FlushThenCommit(
                lambda: self.source, target.producer, self.tracker, config.flush_timeout_ms / 1000
            )
            if make_step is None
            else make_step(lambda: self.source)
        )
        self.source: Source = self._make_source()
        self._task = runtime.spawn(self._run, name=f"mirror-{name}")

    # -- for others

    def stop(self) -> None:
        """End after a last flush and commit, without waiting for that."""
        self._stop.set()
        self._wake()

    def fail(self) -> None:
        """End at once, without another commit."""
        self._failed = True
        self.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; False on a time-out."""
        return self._task.join(timeout_s)

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return not self._kept and self.tracker.open_bytes == 0 and self._step.idle

    @property
    def failures(self) -> int:
        """Number of failed attempts to read, send or commit."""
        return self.counts.failures + self._step.failures

    def _wake(self) -> None:
        source = getattr(self, "source", None)
        if source is not None:
            source.wake()

    # -- the task

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._turn()
                except TransactionError as error:
                    self._start_over(error)
        except BaseException as error:
            if not self._failed:
                self.fail()
                self._on_failure(error)
            if not isinstance(error, ZkbrokerError):
                raise
        finally:
            self._end()

    def _turn(self) -> None:
        room = self._config.window_bytes - self.tracker.open_bytes
        blocked = bool(self._kept)
        try:
            chunks = self.source.poll(_AGAIN_S if blocked else _POLL_S, 0 if blocked else room)
        except (ZkbrokerError, OSError) as error:
            if not passes(error):
                raise
            self.counts.failures += 1
            logger.warning("source not read, trying again mirror=%s error=%s", self.name, error)
            self._stop.wait(_AGAIN_S)
            chunks = ()
        self._kept.extend(chunks)
        while self._kept and not self._failed:
            chunk = self._kept[0]
            if chunk.partition.progress is chunk.progress and not self._send(chunk):
                break
            self._kept.popleft()
        if time.monotonic() >= self._commit_due and not self._failed:
            self._commit()

    def _start_over(self, error: TransactionError) -> None:
        """Drop uncommitted progress, leave the group, and join it again."""
        self.counts.failures += 1
        logger.warning(
            "transaction not committed, read again from the last one mirror=%s error=%s",
            self.name,
            error,
        )
        self._failed_in_a_row += 1
        if self._failed_in_a_row % _REPORT_EVERY == 0:
            logger.error(
                "no transaction was committed in %d attempts mirror=%s: another mirror may have "
                "the same exactly.once.id in another group; give it one of its own, or the same "
                "group.id",
                self._failed_in_a_row,
                self.name,
            )
        self._leave()
        while not self._stop.is_set():
            try:
                self.source = self._make_source()
                return
            except (ZkbrokerError, OSError) as failure:
                if not passes(failure):
                    raise
                logger.warning(
                    "source not joined, trying again mirror=%s error=%s", self.name, failure
                )
            self._stop.wait(_AGAIN_S)

    def _leave(self) -> None:
        """Leave the group, without a commit of messages in flight."""
        self._leaving = True
        try:
            self._step.drop(None)
            self.source.close(_CLOSE_S)
        except (ZkbrokerError, OSError) as error:
            logger.warning("source not left mirror=%s error=%s", self.name, error)
        finally:
            self._kept.clear()
            self.tracker.drop(self.tracker.partitions())
            self._leaving = False

    def _commit(self) -> None:
        self._commit_due = time.monotonic() + self._config.commit_every_s
        self._on_syncs(self.tracker.take_syncs())
        busy = not self._step.idle
        self._step.commit()
        if busy:
            self._failed_in_a_row = 0

    def _release(self, partitions: Collection[PartitionKey]) -> None:
        if self._failed or self._leaving:
            self._lose(partitions)
            return
        self._step.release(partitions)
        self._on_syncs(self.tracker.take_syncs())
        self.tracker.drop(partitions)

    def _lost(self, partitions: Collection[PartitionKey]) -> None:
        logger.warning("partitions lost mirror=%s partitions=%d", self.name, len(partitions))
        self._lose(partitions)

    def _lose(self, partitions: Collection[PartitionKey]) -> None:
        self._step.drop(partitions)
        self.tracker.drop(partitions)

    def _end(self) -> None:
        try:
            if not self._failed:
                self.tracker.wait_done(None, self._config.flush_timeout_ms / 1000)
                self._commit()
        except ZkbrokerError as error:
            logger.warning("last commit failed mirror=%s error=%s", self.name, error)
        if self._failed:
            self._step.drop(None)
        try:
            self.source.close(_CLOSE_S + self._config.flush_timeout_ms / 1000)
        except (ZkbrokerError, OSError) as error:
            logger.warning("source not left mirror=%s error=%s", self.name, error)

    # -- a chunk

    def _send(self, chunk: Chunk) -> bool:
        """Send the messages of a chunk; False when the target cannot take it yet."""
        topic, number = chunk.partition.key
        if self._routes.skips(topic):
            self.tracker.take(chunk).finish()
            return True
        try:
            with ExitStack() as stack:
                try:
                    if self._awaited is not None and self._awaited[0] is chunk:
                        self._target.partitions(self._awaited[1])
                    route = self._routes.find(topic, number)
                    outlet = stack.enter_context(self._step.open(chunk))
                except (ZkbrokerError, OSError) as error:
                    if not passes(error) or isinstance(error, TransactionError):
                        raise
                    self.counts.failures += 1
                    logger.warning("target not ready topic=%s error=%s", topic, error)
                    return False
                self._send_to(outlet, chunk, route)
        except TopicNotReady as error:
            # The next attempt looks it up first, and so tells whether the error passes.
            self._awaited = chunk, error.topic
            return False
        self._awaited = None
        return True

    def _send_to(self, outlet: Outlet | None, chunk: Chunk, route: Route) -> None:
        ticket = self.tracker.take(chunk)
        if outlet is None or outlet.begin >= chunk.next_offset:
            ticket.finish()
            return
        begin = outlet.begin
        done = partial(self._done, ticket, route.identity)
        aligned = not ticket.first and begin == chunk.offset
        try:
            batches = list(self._maker.batches(chunk, begin, route, done, aligned=aligned))
        except CorruptMessage as error:
            raise where_corrupt(error, *chunk.partition.key) from error
        except TopicNotReady:
            ticket.put_back()
            raise
        if ticket.first and batches and route.identity:
            batches[0].begin = begin
        try:
            for batch in batches:
                ticket.add()
                try:
                    outlet.producer.send_batch(batch)
                except BaseException:
                    # A release that waits for the chunk must not commit it.
                    self.tracker.drop([chunk.partition.key])
                    ticket.finish()
                    raise
        finally:
            ticket.finish()

    # -- answers, in the task of a connection

    def _done(self, ticket: TakenChunk, identity: bool, batch: EncodedBatch) -> None:
        assert isinstance(batch, MirrorBatch)
        if batch.error is None:
            place = None
            if identity and batch.base_offset >= 0:
                place = Place(batch.topic, batch.partition, batch.base_offset + len(batch))
                if batch.begin is not None:
                    first = Place(batch.topic, batch.partition, batch.base_offset)
                    ticket.begins_at(batch.begin, first)
            ticket.finish(place)
            return
        if self._step.may_repeat(batch.error):
            # The transaction fails with it, and its commit raises.
            ticket.finish()
            return
        if self._config.abort_on_send_failure:
            if not self._failed:
                self.fail()
                self._on_failure(batch.error)
            return
        self.counts.dropped_messages += batch.failed
        logger.error(
            "messages dropped %s messages=%d error=%s", batch.where, batch.failed, batch.error
        )
        ticket.finish()


def passes(error: BaseException) -> bool:
    """Whether a retry may help."""
    if isinstance(error, ConfigError | CorruptMessage):
        return False
    return may_pass(error) or isinstance(error, ClientError | RegistryError | OSError)
