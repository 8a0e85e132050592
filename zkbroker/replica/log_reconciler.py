"""Makes a follower's log a prefix of its leader's, so that the rest can be copied.

    truncating    leader: where does the last epoch of this log end? -> cut there, or ask again
    out of range  leader: where do you end and begin? -> cut to its end, or restart at its start

Invariants: `truncation` decides where to cut; this module asks the leader and cuts. An answer for
a partition whose leader epoch has changed since, or whose log has a new epoch, changes nothing.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from zkbroker.errors import ZkbrokerError
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from zkbroker.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from zkbroker.replica.fetching import Followed
from zkbroker.replica.followed_partitions import FollowedPartitions
from zkbroker.replica.leader_requests import LeaderRequests
from zkbroker.replica.role import NO_EPOCH
from zkbroker.replica.truncation import (
    TruncationPoint,
    cut_by_answer,
    cut_without_epochs,
)
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import paced

logger = logging.getLogger(__name__)

_PACE = 500


@dataclass(slots=True)
class LogReconciler:
    """Reconciles the logs of one fetcher's partitions with their leader's.

    Args: lost is called with the partitions that wait for an answer when none comes.
    """

    broker_id: int
    followed: FollowedPartitions
    line: LeaderRequests
    runtime: Runtime
    lost: Callable[[Iterable[Followed]], None]

    def truncate(self) -> bool:
        """Truncate the logs that need it before they are copied; False when nothing was due."""
        due = self.followed.due(truncating=True)
        asking: dict[TopicPartition, tuple[Followed, int]] = {}
        for each in paced(self.runtime, due, _PACE):
            try:
                following = each.following
                epoch = following.latest_epoch if self.line.knows_epochs else NO_EPOCH
                if epoch == NO_EPOCH:
                    self._cut(
                        each,
                        cut_without_epochs(following.high_watermark, following.log_end_offset),
                    )
                else:
                    asking[each.key] = (each, epoch)
            except ZkbrokerError as error:
                self.followed.local(each, error)
        if asking:
            self._ask(asking)
        return bool(due)

    def _ask(self, asking: dict[TopicPartition, tuple[Followed, int]]) -> None:
        topics: dict[str, OffsetForLeaderEpochRequestTopic] = {}
        for key, (each, epoch) in asking.items():
            item = topics.setdefault(key.topic, OffsetForLeaderEpochRequestTopic(key.topic, []))
            item.partitions.append(
                OffsetForLeaderEpochRequestPartition(
                    partition=key.partition,
                    current_leader_epoch=each.following.leader_epoch,
                    leader_epoch=epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(self.broker_id, list(topics.values()))
        try:
            response: OffsetForLeaderEpochResponse = self.line.send(request)
        except ZkbrokerError as error:
            logger.debug("leader epochs not asked leader=%d error=%s", self.line.leader, error)
            self.lost(each for each, _ in asking.values())
            return
        for topic in response.topics:
            for answer in paced(self.runtime, topic.partitions, _PACE):
                asked = asking.pop(TopicPartition(topic.topic, answer.partition), None)
                if asked is None or not self.followed.current(asked[0]):
                    continue
                followed, epoch = asked
                following = followed.following
                if answer.error_code:
                    self.followed.refused(followed, answer.error_code)
                    continue
                try:
                    if following.latest_epoch != epoch:
                        continue
                    cut = cut_by_answer(
                        answer.leader_epoch,
                        answer.end_offset,
                        high_watermark=following.high_watermark,
                        log_end_offset=following.log_end_offset,
                        own_end_of=following.end_offset_for_epoch,
                    )
                    self._cut(followed, cut)
                except ZkbrokerError as error:
                    self.followed.local(followed, error)
        for each, _ in asking.values():
            if self.followed.current(each):
                self.followed.delay(each, "not answered")

    def _cut(self, followed: Followed, cut: TruncationPoint) -> None:
        following = followed.following
        if cut.offset < following.high_watermark:
            logger.warning(
                "log cut below its high watermark partition=%s offset=%d high_watermark=%d",
                followed.key,
                cut.offset,
                following.high_watermark,
            )
        following.truncate_to(cut.offset)
        if cut.complete:
            # A fetch tells the leader that this replica has everything below the fetched offset.
            # After a kill, the log may hold messages that were written but never flushed.
            following.wait_flushed()
        if cut.complete and self.followed.current(followed):
            followed.truncating = False
        followed.backoff_ms = followed.delayed_until_ms = 0

    def out_of_range(self, followed: Followed) -> None:
        """Find the offset to go on from when the leader has nothing at the end of this log.

        Raises:
            ZkbrokerError: none was found.
        """
        following = followed.following
        end = self._offset_of(followed, LATEST_TIMESTAMP)
        if end is None:
            return
        own_end = following.log_end_offset
        if end < own_end:
            logger.warning(
                "leader's log is shorter, log is cut partition=%s leader=%d leader_end=%d "
                "log_end_offset=%d",
                followed.key,
                self.line.leader,
                end,
                own_end,
            )
            following.truncate_to(end)
            return
        start = self._offset_of(followed, EARLIEST_TIMESTAMP)
        if start is not None and start > own_end:
            logger.warning(
                "leader's log begins later, log is emptied partition=%s leader=%d leader_start=%d "
                "log_end_offset=%d",
                followed.key,
                self.line.leader,
                start,
                own_end,
            )
            following.restart_at(start)

    def _offset_of(self, followed: Followed, timestamp: int) -> int | None:
        """Ask the leader for its log end or start; None if it refused, or the role changed."""
        key = followed.key
        asked = ListOffsetsRequestPartition(
            partition=key.partition,
            current_leader_epoch=followed.following.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            self.broker_id, topics=[ListOffsetsRequestTopic(key.topic, [asked])]
        )
        try:
            response: ListOffsetsResponse = self.line.send(request)
        except ZkbrokerError as error:
            logger.debug("offsets not asked leader=%d error=%s", self.line.leader, error)
            self.lost([followed])
            return None
        answers = [each for topic in response.topics for each in topic.partitions]
        if not self.followed.current(followed):
            return None
        if len(answers) != 1 or (not answers[0].error_code and _offset(answers[0]) < 0):
            self.followed.delay(followed, "offset not answered")
            return None
        if answers[0].error_code:
            self.followed.refused(followed, answers[0].error_code)
            return None
        return _offset(answers[0])


def _offset(answer: Any) -> int:
    offsets: Sequence[int] = answer.offsets
    return offsets[0] if offsets else int(answer.offset)
