"""Copies partitions from one broker that leads them: one task, one connection, one request a time.

    followed --> TRUNCATING -- cut where the leader's log parts from this one --> FETCHING
                  |    ^                                                         |   |
                  |    +--------- told of another epoch: begins anew ------------+   |
                  +-- failed: again later (DELAYED until then) ----------------------+
                  +-- leader epoch is over (74), or the answer is of no use: FAILED, until told anew

Invariants: nothing is fetched before the log is a beginning of the leader's; what is fetched is
appended as it is, at the offset that was asked for, under the leader epoch that was asked under: an
answer for another state of the partition is dropped. A partition with messages that is followed
anew does not wait for a fetch that waits for messages of others: that one is cut off. One answer at
a time is in memory, of `replica.fetch.response.max.bytes` or one batch; it is appended in small
parts, and other tasks get their turn between them. Uses a runtime, a clock and connections that it
is given, nothing else.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from zkbroker.errors import (
    CorruptMessage,
    ErrorCode,
    NetworkError,
    NotLeaderForPartition,
    StorageError,
    ZkbrokerError,
)
from zkbroker.log import TopicPartition
from zkbroker.protocol import ApiKey
from zkbroker.protocol.inter_broker import INTER_BROKER_VERSIONS
from zkbroker.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochResponse,
)
from zkbroker.protocol.messages.fetch import FetchResponsePartition
from zkbroker.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.replica.fetch_session import FollowerFetchSession, Wanted
from zkbroker.replica.follower_append import append_in_parts
from zkbroker.replica.following import (
    Connect,
    Connection,
    FetcherCounts,
    FetcherSettings,
    Followed,
    Stage,
)
from zkbroker.replica.partition import Partition
from zkbroker.replica.throttle import ReplicationThrottle, names_replica
from zkbroker.replica.truncation import (
    NO_EPOCHS,
    Cut,
    EpochQuestion,
    cut_by_answer,
    cut_without_epochs,
    epoch_request,
)
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

FIRST_BACKOFF_MS = 50
_LIMITED_SINCE = 3
_LEAST_BYTES = 4096
_PACE = 500
_QUIET = {
    ErrorCode.NOT_LEADER_FOR_PARTITION,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""What a leader answers that has not heard yet what this broker was told."""
_SESSION_ERRORS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
}

T = TypeVar("T")


class Fetcher:
    """The task that follows one leader.

    Args:
        broker_id: this broker.
        leader: the broker to fetch from.
        number: of this fetcher among those for the leader.
        connect: see there.
        settings: see there.
        runtime: for its task.
        clock_ms: monotonic milliseconds.
        throttle: of this broker as a follower.
    """

    def __init__(
        self,
        broker_id: int,
        leader: int,
        number: int,
        connect: Connect,
        settings: FetcherSettings,
        *,
        runtime: Runtime,
        clock_ms: Callable[[], int],
        throttle: ReplicationThrottle,
    ) -> None:
        self.leader = leader
        self.number = number
        self.counts = FetcherCounts()
        self._broker_id = broker_id
        self._connect = connect
        self._settings = settings
        self._versions = INTER_BROKER_VERSIONS[settings.level]
        self._runtime = runtime
        self._clock_ms = clock_ms
        self._throttle = throttle
        self._limited = self._versions[ApiKey.FETCH] >= _LIMITED_SINCE
        self._session = FollowerFetchSession(self._versions[ApiKey.FETCH])
        self._followed: dict[TopicPartition, Followed] = {}
        self.failed: set[TopicPartition] = set()
        """Partitions that are not copied until the controller tells of them anew."""
        self._changed = runtime.event()
        self._stopping = False
        self._fetching = self._cut_off = False
        self._connection: Connection | None = None
        self._task = runtime.spawn(self._run, name=f"fetcher-{number}-of-{leader}")

    # -- what is followed

    def follow(self, partition: Partition, *, truncate: bool = True) -> None:
        """Copy a partition under its present leader epoch.

        Args:
            partition: a follower of this fetcher's leader.
            truncate: False when its log is known to be a beginning of the leader's.
        """
        stage = Stage.TRUNCATING if truncate else Stage.FETCHING
        self.failed.discard(partition.key)
        self._followed[partition.key] = Followed(partition, partition.leader_epoch, stage)
        self._changed.set()
        if self._fetching and self._connection is not None and partition.log_end_offset > 0:
            # An empty one is new: of those there may come many, each after the other.
            self._fetching, self._cut_off = False, True
            self._connection.close()

    def forget(self, key: TopicPartition) -> Followed | None:
        """Copy a partition no more; does not wait. What is under way for it is dropped."""
        self.failed.discard(key)
        return self._followed.pop(key, None)

    @property
    def idle(self) -> bool:
        """Whether nothing is followed."""
        return not self._followed and not self.failed

    def lags(self) -> dict[TopicPartition, int]:
        """Return how many messages each partition misses, of those known."""
        return {key: each.lag for key, each in self._followed.items() if each.lag is not None}

    # -- the task

    def stop(self) -> None:
        """End the task soon; what is under way is dropped. Does not wait."""
        self._stopping = True
        self._followed.clear()
        self._changed.set()
        self._disconnect()

    def join(self, timeout_s: float) -> bool:
        """Wait until the task ended."""
        return self._task.join(timeout_s)

    def _run(self) -> None:
        while not self._stopping:
            self._changed.clear()
            try:
                busy = self.step()
            except Exception:
                # Without this task its partitions would never be copied again.
                logger.exception("fetcher failed, goes on leader=%d", self.leader)
                self._lost(list(self._followed.values()))
                busy = False
            if not busy and not self._stopping:
                self._changed.wait(self._idle_s())
        self._disconnect()

    def _idle_s(self) -> float | None:
        if not self._followed:
            self._disconnect()
            return None
        now = self._clock_ms()
        waits = [
            each.delayed_until_ms - now
            for each in self._followed.values()
            if each.delayed_until_ms > now
        ]
        # What is neither due nor delayed is throttled.
        longest = self._settings.backoff_ms
        return max(0, min([longest, *waits])) / 1000

    def step(self) -> bool:
        """Do once what is due; False when nothing was."""
        truncated = self._truncate()
        return self._fetch() or truncated

    def _due(self, stage: Stage) -> list[Followed]:
        now = self._clock_ms()
        return [
            each
            for each in self._followed.values()
            if each.stage is stage and each.delayed_until_ms <= now
        ]

    def _current(self, followed: Followed) -> bool:
        """Whether it was not told anew meanwhile."""
        return self._followed.get(followed.key) is followed

    def _paced(self, items: Iterable[T]) -> Iterator[T]:
        for number, item in enumerate(items):
            if number % _PACE == _PACE - 1:
                self._runtime.sleep(0)
            yield item

    # -- failures

    def _delay(self, followed: Followed, why: object, *, quietly: bool = False) -> None:
        """Try a partition again later: soon at first, then after the set time."""
        longest = self._settings.backoff_ms
        repeated = followed.backoff_ms > 0
        followed.backoff_ms = min(longest, 2 * followed.backoff_ms or FIRST_BACKOFF_MS)
        followed.delayed_until_ms = self._clock_ms() + followed.backoff_ms
        level = logging.DEBUG if repeated or quietly else logging.WARNING
        logger.log(
            level,
            "partition not copied, tried again partition=%s leader=%d epoch=%d reason=%s",
            followed.key,
            self.leader,
            followed.leader_epoch,
            why,
        )

    def _lost(self, waiting: Iterable[Followed]) -> None:
        """Begin anew with another connection, later."""
        self._disconnect()
        self._session.failed()
        for each in waiting:
            self._delay(each, "no answer", quietly=True)

    def _fail(self, followed: Followed, why: object) -> None:
        """Copy a partition no more until the controller tells of it anew."""
        del self._followed[followed.key]
        self.failed.add(followed.key)
        logger.error(
            "partition not copied until told anew partition=%s leader=%d epoch=%d reason=%s",
            followed.key,
            self.leader,
            followed.leader_epoch,
            why,
        )

    def _refused(self, followed: Followed, code: int) -> None:
        """Take an error that the leader answered for a partition."""
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            del self._followed[followed.key]
            logger.info(
                "leader epoch is over, waits for the controller partition=%s epoch=%d",
                followed.key,
                followed.leader_epoch,
            )
            self.failed.add(followed.key)
        else:
            self._delay(followed, _name(code), quietly=code in _QUIET)

    def _local(self, followed: Followed, error: ZkbrokerError) -> None:
        """Take an error of this broker's own replica."""
        if not self._current(followed) or isinstance(error, NotLeaderForPartition):
            return  # another role or epoch: whoever gave it says what is to be done
        if isinstance(error, CorruptMessage):
            # Perhaps damaged on its way.
            self._delay(followed, error)
        else:
            self._fail(followed, error)

    # -- the network

    def _send(self, request: Any) -> Any:
        if self._connection is None:
            self._connection = self._connect(self.leader, self.number)
        self.counts.requests += 1
        answer = self._connection.send(request, self._versions[request.api_key])
        if self._stopping:
            raise NetworkError("the fetcher is stopping")
        return answer

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # -- truncating

    def _truncate(self) -> bool:
        due = self._due(Stage.TRUNCATING)
        asking: dict[TopicPartition, tuple[Followed, int]] = {}
        for each in self._paced(due):
            try:
                epoch = self._epoch_to_ask(each.partition)
                if epoch == NO_EPOCHS:
                    self._cut(
                        each,
                        cut_without_epochs(
                            each.partition.high_watermark, each.partition.log_end_offset
                        ),
                    )
                else:
                    asking[each.key] = (each, epoch)
            except ZkbrokerError as error:
                self._local(each, error)
        if asking:
            self._ask(asking)
        return bool(due)

    def _epoch_to_ask(self, partition: Partition) -> int:
        if ApiKey.OFFSET_FOR_LEADER_EPOCH not in self._versions:
            return NO_EPOCHS
        return partition.latest_epoch

    def _ask(self, asking: dict[TopicPartition, tuple[Followed, int]]) -> None:
        request = epoch_request(
            self._broker_id,
            [EpochQuestion(key, each.leader_epoch, epoch) for key, (each, epoch) in asking.items()],
        )
        try:
            response: OffsetForLeaderEpochResponse = self._send(request)
        except ZkbrokerError as error:
            logger.debug("leader epochs not asked leader=%d error=%s", self.leader, error)
            self._lost(each for each, _ in asking.values())
            return
        for topic in response.topics:
            for answer in self._paced(topic.partitions):
                asked = asking.pop(TopicPartition(topic.topic, answer.partition), None)
                if asked is None or not self._current(asked[0]):
                    continue
                followed, epoch = asked
                partition = followed.partition
                if answer.error_code:
                    self._refused(followed, answer.error_code)
                    continue
                try:
                    if partition.latest_epoch != epoch:
                        continue
                    cut = cut_by_answer(
                        answer.leader_epoch,
                        answer.end_offset,
                        high_watermark=partition.high_watermark,
                        log_end_offset=partition.log_end_offset,
                        own_end_of=partition.own_end_offset_for_epoch,
                    )
                    self._cut(followed, cut)
                except ZkbrokerError as error:
                    self._local(followed, error)
        for each, _ in asking.values():
            if self._current(each):
                self._delay(each, "not answered")

    def _cut(self, followed: Followed, cut: Cut) -> None:
        partition = followed.partition
        if cut.offset < partition.high_watermark:
            logger.warning(
                "log cut below its high watermark partition=%s offset=%d high_watermark=%d",
                followed.key,
                cut.offset,
                partition.high_watermark,
            )
        partition.truncate_to(cut.offset, followed.leader_epoch)
        if cut.complete and self._current(followed):
            followed.stage = Stage.FETCHING
        followed.backoff_ms = followed.delayed_until_ms = 0

    # -- fetching

    def _fetch(self) -> bool:
        wanted: dict[TopicPartition, Wanted] = {}
        asked: dict[TopicPartition, Followed] = {}
        due = self._due(Stage.FETCHING)
        for each in self._paced(due):
            if not self._held_back(each):
                partition = each.partition
                wanted[each.key] = Wanted(
                    partition.log_end_offset,
                    each.leader_epoch,
                    partition.log_start_offset,
                    each.max_bytes or self._share(len(due)),
                )
                asked[each.key] = each
        if not wanted and not (self._session.incremental and self._session.asked):
            return False
        part = self._session.next(wanted)
        settings = self._settings
        request = FetchRequest(
            self._broker_id,
            settings.max_wait_ms if wanted else 0,
            settings.min_bytes,
            settings.response_max_bytes,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=part.topics,
            forgotten_topics=part.forgotten,
        )
        self._fetching = bool(request.max_wait_ms)
        try:
            response: FetchResponse = self._send(request)
        except ZkbrokerError as error:
            if self._cut_off:
                self._disconnect()
                self._session.failed()
                return True
            logger.debug("not fetched leader=%d error=%s", self.leader, error)
            self._lost(asked.values())
            return True
        finally:
            self._fetching = self._cut_off = False
        answers = {
            TopicPartition(topic.topic, each.partition): each
            for topic in response.topics
            for each in topic.partitions
        }
        wrong = self._session.answered(response.error_code, response.session_id, answers.keys())
        if wrong is not None:
            logger.info("fetch session begins anew leader=%d reason=%s", self.leader, wrong)
            if response.error_code not in _SESSION_ERRORS:
                for each in asked.values():
                    self._delay(each, wrong)
            return True
        self._take(answers, asked, wanted)
        return True

    def _held_back(self, followed: Followed) -> bool:
        return followed.lag != 0 and self._throttle.exceeded and self._throttled(followed)

    def _throttled(self, followed: Followed) -> bool:
        try:
            text = followed.partition.log.config.follower_throttled_replicas
        except StorageError:
            return False
        return names_replica(text, followed.key, self._broker_id)

    def _share(self, partitions: int) -> int:
        settings = self._settings
        if self._limited:
            return settings.max_bytes
        # There is no limit of the whole answer before version 3.
        share = max(_LEAST_BYTES, settings.response_max_bytes // max(1, partitions))
        return min(settings.max_bytes, share)

    def _take(
        self,
        answers: dict[TopicPartition, FetchResponsePartition],
        asked: dict[TopicPartition, Followed],
        wanted: dict[TopicPartition, Wanted],
    ) -> None:
        for key, answer in self._paced(answers.items()):
            followed = asked.get(key)
            if followed is None or not self._current(followed):
                continue
            if followed.partition.log_end_offset != wanted[key].offset:
                continue
            try:
                if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._out_of_range(followed)
                elif answer.error_code:
                    self._refused(followed, answer.error_code)
                else:
                    self._append(followed, answer, wanted[key])
            except ZkbrokerError as error:
                self._local(followed, error)
        self._wait_flushed(asked[key] for key in answers if key in asked)

    def _wait_flushed(self, appended: Iterable[Followed]) -> None:
        """Fetch on only when what was appended is as safe as `flush.messages` asks for.

        Every flush was asked for by its append: together they take as long as the longest.
        """
        for followed in appended:
            if self._current(followed) and followed.stage is Stage.FETCHING:
                try:
                    followed.partition.wait_flushed(followed.leader_epoch)
                except ZkbrokerError as error:
                    self._local(followed, error)

    def _append(self, followed: Followed, answer: FetchResponsePartition, wanted: Wanted) -> None:
        partition = followed.partition
        data = memoryview(answer.records or b"")  # type: ignore[arg-type]
        taken = append_in_parts(
            partition,
            followed.leader_epoch,
            data,
            go_on=lambda: self._current(followed),
            give_way=lambda: self._runtime.sleep(0),
        )
        if not self._current(followed):
            return
        partition.follow_marks(
            answer.high_watermark, answer.log_start_offset, followed.leader_epoch
        )
        followed.lag = max(0, answer.high_watermark - partition.log_end_offset)
        if taken or not data:
            followed.max_bytes = followed.backoff_ms = 0
        elif not self._limited:
            self._ask_for_more(followed, wanted)
        if taken:
            self.counts.bytes_in += taken
            if self._throttled(followed):
                self._throttle.record(taken)
            # The ones that got nothing are first the next time.
            self._followed[followed.key] = self._followed.pop(followed.key)

    def _ask_for_more(self, followed: Followed, wanted: Wanted) -> None:
        """Take note of a batch that was cut; from version 3 on, the first of an answer is whole."""
        most = self._settings.max_bytes
        if wanted.max_bytes < most:
            followed.max_bytes = min(most, 2 * wanted.max_bytes)
        else:
            self._delay(
                followed,
                f"the batch at offset {wanted.offset} is larger than "
                f"replica.fetch.max.bytes={most}: raise it",
            )

    # -- a place that the leader does not have

    def _out_of_range(self, followed: Followed) -> None:
        """Find a place to go on from; the leader has nothing at the end of this log.

        Raises:
            ZkbrokerError: it was not found.
        """
        partition, epoch = followed.partition, followed.leader_epoch
        end = self._offset_of(followed, LATEST_TIMESTAMP)
        if end is None:
            return
        own_end = partition.log_end_offset
        if end < own_end:
            logger.warning(
                "leader has less, log is cut partition=%s leader=%d leader_end=%d "
                "log_end_offset=%d",
                followed.key,
                self.leader,
                end,
                own_end,
            )
            partition.truncate_to(end, epoch)
            return
        start = self._offset_of(followed, EARLIEST_TIMESTAMP)
        if start is not None and start > own_end:
            logger.warning(
                "leader begins later, log is emptied partition=%s leader=%d leader_start=%d "
                "log_end_offset=%d",
                followed.key,
                self.leader,
                start,
                own_end,
            )
            partition.start_anew_at(start, epoch)

    def _offset_of(self, followed: Followed, timestamp: int) -> int | None:
        """Ask the leader for its end or start; None when it refused, or all is different now."""
        key = followed.key
        asked = ListOffsetsRequestPartition(key.partition, followed.leader_epoch, timestamp)
        request = ListOffsetsRequest(
            self._broker_id, topics=[ListOffsetsRequestTopic(key.topic, [asked])]
        )
        try:
            response: ListOffsetsResponse = self._send(request)
        except ZkbrokerError as error:
            logger.debug("offsets not asked leader=%d error=%s", self.leader, error)
            self._lost([followed])
            return None
        answers = [each for topic in response.topics for each in topic.partitions]
        if not self._current(followed):
            return None
        if len(answers) != 1 or (not answers[0].error_code and _offset(answers[0]) < 0):
            self._delay(followed, "offset not answered")
            return None
        if answers[0].error_code:
            self._refused(followed, answers[0].error_code)
            return None
        return _offset(answers[0])


def _offset(answer: Any) -> int:
    offsets: Sequence[int] = answer.offsets
    return offsets[0] if offsets else int(answer.offset)


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
