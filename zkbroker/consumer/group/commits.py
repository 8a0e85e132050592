"""Offsets of a group, committed and fetched as one of its members.

Invariant: a commit names the generation in which its partitions were held, so the coordinator
refuses one that comes too late and would overwrite the new owner's; the member then loses its
partitions.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.client.group_offsets import (
    NO_GENERATION,
    Committed,
    CoordinatorOffsets,
    commit_error,
    commit_request,
)
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group.joining import Share
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, protocol_error
from zkbroker.network.client.connection import Pending
from zkbroker.protocol.messages import OffsetCommitRequest
from zkbroker.types import PartitionKey

_TOO_LATE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)


class CommitFailed(ClientError):
    """The group is in a later generation: another member may have the partitions already."""


Commits: TypeAlias = Mapping[PartitionKey, Committed]
OnCommit: TypeAlias = Callable[[Commits, Exception | None], object]


class MemberOffsets:
    """Commits and fetches offsets of one group.

    Args:
        config: settings.
        coordinator: asks the coordinator.
        notify: called when `report` has an answer to `commit_async`; must not wait.
        fence: called with the error when the group is in a later generation.
    """

    def __init__(
        self,
        config: GroupConsumerConfig,
        coordinator: CoordinatorConnection,
        notify: Callable[[], None],
        fence: Callable[[ErrorCode], None],
    ) -> None:
        self._group_id = config.group_id
        self._coordinator = coordinator
        self._notify = notify
        self._fence = fence
        self._reports: deque[Callable[[], object]] = deque()
        self._open = 0
        timeout_s = config.request_timeout_ms / 1000
        self.fetch = CoordinatorOffsets(coordinator, config.group_id, timeout_s=timeout_s).fetch
        """See `CoordinatorOffsets.fetch`."""

    @property
    def busy(self) -> bool:
        """Whether an asynchronous commit is under way."""
        return self._open > 0

    def commit(self, offsets: Commits, share: Share | None, timeout_s: float) -> None:
        """Commit and wait.

        Args:
            offsets: what to commit.
            share: under which the partitions are held; None outside a group.
            timeout_s: how long to try.

        Raises:
            CommitFailed: the group is in a later generation.
            ProtocolError: refused, or the coordinator cannot be reached.
        """
        self.report()
        if not offsets:
            return
        response = self._coordinator.ask(
            self._request(offsets, share), timeout_s=timeout_s, error_of=commit_error
        )
        error = self._error(commit_error(response))
        if error is not None:
            raise error

    def commit_async(
        self, commits: Commits, share: Share | None, on_commit: OnCommit | None
    ) -> None:
        """Commit without waiting; `on_commit` is called by a later `report`."""
        if not commits:
            return
        self._open += 1
        try:
            pending = self._coordinator.send(self._request(commits, share))
        except ProtocolError as error:
            self._coordinator.lost(error)
            self._finish(commits, error, on_commit)
            return
        pending.add_done_callback(partial(self._answered, commits, on_commit))

    def report(self) -> None:
        """Call the callbacks of the commits that were answered."""
        while self._reports:
            self._reports.popleft()()

    def _answered(self, commits: Commits, on_commit: OnCommit | None, pending: Pending) -> None:
        error: Exception | None
        try:
            error = self._error(commit_error(pending.result(0)))
        except ProtocolError as failure:
            error = failure
        if isinstance(error, ProtocolError):
            self._coordinator.lost(error)
        self._finish(commits, error, on_commit)

    def _finish(
        self, commits: Commits, error: Exception | None, on_commit: OnCommit | None
    ) -> None:
        self._open -= 1
        if on_commit is not None:
            self._reports.append(partial(on_commit, commits, error))
        self._notify()

    def _error(self, code: int) -> Exception | None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._fence(ErrorCode(code))
        if code in _TOO_LATE:
            return CommitFailed(
                f"commit of group {self._group_id} came too late ({ErrorCode(code).name}): poll "
                "more often, or take fewer messages at once (max.poll.interval.ms, "
                "max.poll.records)"
            )
        return protocol_error(code, f"commit of group {self._group_id}") if code else None

    def _request(self, offsets: Commits, share: Share | None) -> OffsetCommitRequest:
        return commit_request(
            self._group_id,
            offsets,
            generation=NO_GENERATION if share is None else share.generation,
            member_id="" if share is None else share.member_id,
        )
