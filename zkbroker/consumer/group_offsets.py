"""Offsets of a group, committed and fetched as one of its members.

Invariant: a commit names the generation in which its partitions were held, so one that comes too
late is refused by the coordinator and not applied over the new owner's; the member then counts as
lost.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.coordinator_link import CoordinatorLink
from zkbroker.consumer.group_joining import NO_GENERATION, Share
from zkbroker.consumer.lookup import by_topic
from zkbroker.consumer.partition import TopicPartition
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, protocol_error
from zkbroker.network import Pending
from zkbroker.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestTopic,
)

_TOO_LATE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset: the next one to consume, and a text of the user's."""

    offset: int
    metadata: str = ""


class CommitFailed(ClientError):
    """The group has gone on: another member may hold the partitions, from the last commit on."""


Commits: TypeAlias = Mapping[TopicPartition, Committed]
OnCommit: TypeAlias = Callable[[Commits, Exception | None], object]


class GroupOffsets:
    """Commits and fetches offsets of one group.

    Args:
        config: settings.
        link: asks the coordinator.
        notify: called when an answer to `commit_async` is there to `report`; must not wait.
    """

    def __init__(
        self, config: GroupConsumerConfig, link: CoordinatorLink, notify: Callable[[], None]
    ) -> None:
        self._group_id = config.group_id
        self._timeout_s = config.request_timeout_ms / 1000
        self._link = link
        self._notify = notify
        self._reports: deque[Callable[[], object]] = deque()
        self._open = 0

    @property
    def busy(self) -> bool:
        """Whether an asynchronous commit is under way."""
        return self._open > 0

    def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        """What the group has committed; None where it has not.

        Raises:
            ProtocolError: refused, or the coordinator cannot be reached.
        """
        found: dict[TopicPartition, Committed | None] = dict.fromkeys(partitions)
        if not found:
            return found
        topics = [
            OffsetFetchRequestTopic(topic, [number for number, _ in numbers])
            for topic, numbers in by_topic(found)
        ]
        response: OffsetFetchResponse = self._link.ask(
            OffsetFetchRequest(group_id=self._group_id, topics=topics),
            timeout_s=self._timeout_s,
            error_of=_fetch_error,
        )
        code = _fetch_error(response)
        if code:
            raise protocol_error(code, f"offsets of group {self._group_id}")
        for topic in response.topics:
            for part in topic.partitions:
                if part.offset >= 0:
                    found[topic.topic, part.partition] = Committed(part.offset, part.metadata or "")
        return found

    def commit(
        self, offsets: Commits, share: Share | None, timeout_s: float, fence: Callable[[], None]
    ) -> None:
        """Commit and wait.

        Args:
            offsets: what to commit.
            share: under which they are held; None outside a group.
            timeout_s: how long to try.
            fence: called when the group has gone on.

        Raises:
            CommitFailed: the group has gone on.
            ProtocolError: refused, or the coordinator cannot be reached.
        """
        self.report()
        if not offsets:
            return
        response = self._link.ask(
            self._request(offsets, share), timeout_s=timeout_s, error_of=_commit_error
        )
        error = self._error(_commit_error(response), fence)
        if error is not None:
            raise error

    def commit_async(
        self,
        offsets: Commits | Mapping[TopicPartition, int],
        share: Share | None,
        on_commit: OnCommit | None,
        fence: Callable[[], None],
    ) -> None:
        """Commit without waiting; `on_commit` is called by a later `report`."""
        commits = {
            key: value if isinstance(value, Committed) else Committed(value)
            for key, value in offsets.items()
        }
        if not commits:
            return
        self._open += 1
        try:
            pending = self._link.send(self._request(commits, share))
        except ProtocolError as error:
            self._link.lost(error)
            self._finish(commits, error, on_commit)
            return
        pending.add_done_callback(partial(self._answered, commits, on_commit, fence))

    def report(self) -> None:
        """Call back for the commits that were answered."""
        while self._reports:
            self._reports.popleft()()

    def _answered(
        self,
        commits: Commits,
        on_commit: OnCommit | None,
        fence: Callable[[], None],
        pending: Pending,
    ) -> None:
        error: Exception | None
        try:
            error = self._error(_commit_error(pending.result(0)), fence)
        except ProtocolError as failure:
            error = failure
        if isinstance(error, ProtocolError):
            self._link.lost(error)
        self._finish(commits, error, on_commit)

    def _finish(
        self, commits: Commits, error: Exception | None, on_commit: OnCommit | None
    ) -> None:
        self._open -= 1
        if on_commit is not None:
            self._reports.append(partial(on_commit, commits, error))
        self._notify()

    def _error(self, code: int, fence: Callable[[], None]) -> Exception | None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            fence()
        if code in _TOO_LATE:
            return CommitFailed(
                f"commit of group {self._group_id} came too late ({ErrorCode(code).name}): poll "
                "more often, or take fewer messages at once (max.poll.interval.ms, "
                "max.poll.records)"
            )
        return protocol_error(code, f"commit of group {self._group_id}") if code else None

    def _request(self, offsets: Commits, share: Share | None) -> OffsetCommitRequest:
        return OffsetCommitRequest(
            group_id=self._group_id,
            generation_id=NO_GENERATION if share is None else share.generation,
            member_id="" if share is None else share.member_id,
            topics=[
                OffsetCommitRequestTopic(
                    topic,
                    [
                        OffsetCommitRequestPartition(
                            number, committed.offset, metadata=committed.metadata
                        )
                        for number, committed in numbers
                    ],
                )
                for topic, numbers in by_topic(offsets)
            ],
        )


def _commit_error(response: OffsetCommitResponse) -> int:
    codes = [part.error_code for topic in response.topics for part in topic.partitions]
    return next((code for code in codes if code), ErrorCode.NONE)


def _fetch_error(response: OffsetFetchResponse) -> int:
    codes = [part.error_code for topic in response.topics for part in topic.partitions]
    return response.error_code or next((code for code in codes if code), ErrorCode.NONE)
