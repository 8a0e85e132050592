"""Copies partitions from one leader: one task, one connection, one request at a time.

    truncate the logs that need it -> fetch for the logs that are a prefix of the leader's -> append
      -> nothing due? wait until something is, or until another partition is followed

Invariants: a partition is not fetched before its log is a prefix of the leader's. Fetched bytes are
appended unchanged, at the requested offset, under the leader epoch of the request; an answer for
another state of the partition is dropped. One answer at a time is in memory, of at most
`replica.fetch.response.max.bytes` or one batch. It is appended in small parts, and other tasks get
their turn between them. The runtime, the clock and the connections are given to the fetcher.
"""

import logging
from collections.abc import Iterable

from zkbroker.errors import ErrorCode, ZkbrokerError
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import FetchResponse
from zkbroker.protocol.messages.fetch import FetchResponsePartition
from zkbroker.replica.fetch_session import FollowerFetchSession, PartitionFetch
from zkbroker.replica.fetching import Connect, FetcherSettings, Followed
from zkbroker.replica.followed_partitions import FollowedPartitions
from zkbroker.replica.follower_append import append_in_parts
from zkbroker.replica.following import Following
from zkbroker.replica.leader_requests import LeaderRequests
from zkbroker.replica.log_reconciler import LogReconciler
from zkbroker.replica.throttle import ReplicationThrottle, names_replica
from zkbroker.runtime import OwnerLoop, Runtime
from zkbroker.runtime.pacing import paced

logger = logging.getLogger(__name__)

_LIMITED_SINCE = 3
_LEAST_BYTES = 4096
_PACE = 500
_SESSION_ERRORS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
}


class ReplicaFetcher:
    """The task that follows one leader.

    Args: number is that of this fetcher among those for the leader.
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
        throttle: ReplicationThrottle,
    ) -> None:
        self.leader = leader
        self.number = number
        self.bytes_in = 0
        """Bytes appended."""
        self._broker_id = broker_id
        self._settings = settings
        self._runtime = runtime
        self._throttle = throttle
        self._line = LeaderRequests(leader, number, connect, settings.level)
        self._limited = self._line.fetch_version >= _LIMITED_SINCE
        self._session = FollowerFetchSession(self._line.fetch_version)
        self.followed = FollowedPartitions(leader, runtime=runtime, backoff_ms=settings.backoff_ms)
        self._reconciler = LogReconciler(
            broker_id, self.followed, self._line, runtime=runtime, lost=self._lost
        )
        self._loop = OwnerLoop(
            runtime,
            self._step,
            name=f"fetcher-{number}-of-{leader}",
            logger=logger,
            retry_s=settings.backoff_ms / 1000,
            on_failure=lambda error: self._lost(list(self.followed.by_key.values())),
        )
        self._loop.start()

    def follow(self, following: Following, *, truncate: bool = True) -> None:
        """Copy a partition under the leader epoch of a role.

        Args:
            following: the role, under this fetcher's leader.
            truncate: False when its log is known to be a prefix of the leader's.
        """
        # With epochs, the leader can tell each time how far this log agrees with its own. Without
        # them a log is cut at its high watermark, which lags behind: it is not cut while the leader
        # stays the same, as at level 0.8.2.
        cut = truncate and (self._line.knows_epochs or not following.same_leader)
        self.followed.follow(following, truncating=cut)
        self._loop.set()

    # -- the task

    def stop(self) -> None:
        """End the task soon, without waiting; an answer under way is dropped."""
        self.followed.clear()
        self._loop.end()
        self._line.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait until the task has ended."""
        return self._loop.close(timeout_s)

    def _step(self) -> float | None:
        if self.step():
            return 0.0
        if not self.followed:
            self._line.disconnect()
            return None
        return self.followed.next_due_s()

    def step(self) -> bool:
        """Do what is due, once; False when nothing was."""
        truncated = self._reconciler.truncate()
        return self._fetch() or truncated

    def _lost(self, waiting: Iterable[Followed]) -> None:
        """Drop the connection, and try these partitions again later over a new one."""
        self._line.disconnect()
        self._session.failed()
        for each in waiting:
            self.followed.delay(each, "no answer", quietly=True)

    # -- fetching

    def _fetch(self) -> bool:
        wanted: dict[TopicPartition, PartitionFetch] = {}
        asked: dict[TopicPartition, Followed] = {}
        due = self.followed.due(truncating=False)
        for each in paced(self._runtime, due, _PACE):
            if not self._held_back(each):
                following = each.following
                wanted[each.key] = PartitionFetch(
                    offset=following.log_end_offset,
                    leader_epoch=following.leader_epoch,
                    log_start_offset=following.log_start_offset,
                    max_bytes=each.max_bytes or self._share(len(due)),
                )
                asked[each.key] = each
        if not wanted and not (self._session.incremental and self._session.asked):
            return False
        request, settings = self._session.next(wanted), self._settings
        request.replica_id = self._broker_id
        request.max_wait_ms = settings.max_wait_ms if wanted else 0
        request.min_bytes = settings.min_bytes
        request.max_bytes = settings.response_max_bytes
        try:
            response: FetchResponse = self._line.send(request)
        except ZkbrokerError as error:
            logger.debug("not fetched leader=%d error=%s", self.leader, error)
            self._lost(asked.values())
            return True
        answers = {
            TopicPartition(topic.topic, each.partition): each
            for topic in response.topics
            for each in topic.partitions
        }
        wrong = self._session.answered(response.error_code, response.session_id, answers.keys())
        if wrong is not None:
            logger.info("fetch session restarted leader=%d reason=%s", self.leader, wrong)
            if response.error_code not in _SESSION_ERRORS:
                for each in asked.values():
                    self.followed.delay(each, wrong)
            return True
        self._apply(answers, asked, wanted)
        return True

    def _held_back(self, followed: Followed) -> bool:
        return followed.lag != 0 and self._throttle.exceeded and self._throttled(followed)

    def _throttled(self, followed: Followed) -> bool:
        try:
            text = followed.following.log.config.follower_throttled_replicas
        except ZkbrokerError:
            return False
        return names_replica(text, followed.key, self._broker_id)

    def _share(self, partitions: int) -> int:
        settings = self._settings
        if self._limited:
            return settings.max_bytes
        # Before version 3 a request cannot limit the whole answer.
        share = max(_LEAST_BYTES, settings.response_max_bytes // max(1, partitions))
        return min(settings.max_bytes, share)

    def _apply(
        self,
        answers: dict[TopicPartition, FetchResponsePartition],
        asked: dict[TopicPartition, Followed],
        wanted: dict[TopicPartition, PartitionFetch],
    ) -> None:
        for key, answer in paced(self._runtime, answers.items(), _PACE):
            followed = asked.get(key)
            if followed is None or not self.followed.current(followed):
                continue
            if followed.following.log_end_offset != wanted[key].offset:
                continue
            try:
                if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._reconciler.out_of_range(followed)
                elif answer.error_code:
                    self.followed.refused(followed, answer.error_code)
                else:
                    self._append(followed, answer, wanted[key])
            except ZkbrokerError as error:
                self.followed.local(followed, error)
        self._wait_flushed(asked[key] for key in answers if key in asked)

    def _wait_flushed(self, appended: Iterable[Followed]) -> None:
        """Wait until appended messages are as safe as `flush.messages` requires.

        Each append has requested its flush: together they take as long as the longest.
        """
        for followed in appended:
            if self.followed.current(followed) and not followed.truncating:
                try:
                    followed.following.wait_flushed()
                except ZkbrokerError as error:
                    self.followed.local(followed, error)

    def _append(
        self, followed: Followed, answer: FetchResponsePartition, wanted: PartitionFetch
    ) -> None:
        following = followed.following
        data = memoryview(answer.records or b"")  # type: ignore[arg-type]
        taken = append_in_parts(
            following,
            data,
            go_on=lambda: self.followed.current(followed),
            pause=lambda: self._runtime.sleep(0),
        )
        if not self.followed.current(followed):
            return
        following.follow_marks(answer.high_watermark, answer.log_start_offset)
        followed.lag = max(0, answer.high_watermark - following.log_end_offset)
        if taken or not data:
            followed.max_bytes = followed.backoff_ms = 0
        elif not self._limited:
            self._ask_for_more(followed, wanted)
        if taken:
            self.bytes_in += taken
            if self._throttled(followed):
                self._throttle.record(taken)
            self.followed.ask_last(followed)

    def _ask_for_more(self, followed: Followed, wanted: PartitionFetch) -> None:
        """Ask for more bytes after a batch that was cut; from version 3 on the first is whole."""
        most = self._settings.max_bytes
        if wanted.max_bytes < most:
            followed.max_bytes = min(most, 2 * wanted.max_bytes)
        else:
            self.followed.delay(
                followed,
                f"the batch at offset {wanted.offset} is larger than "
                f"replica.fetch.max.bytes={most}: raise it",
            )
