"""The work of a consumer for its group while it polls.

    serve = report commits, take and give up partitions, check metadata, commit automatically

Invariants:
- Everything here runs in the task that polls, callbacks included; nothing waits longer than a
  request may take.
- No message of a partition is handed out after it was given up. Before that its processed
  messages are committed, unless the membership was lost: then another member may own the
  partition.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from zkbroker.client import Cluster
from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.client.group_offsets import Committed
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.arguments import check_offset
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.group.assignors import Assignor
from zkbroker.consumer.group.commits import CommitFailed, Commits, MemberOffsets, OnCommit
from zkbroker.consumer.group.held_partitions import HeldPartitions
from zkbroker.consumer.group.joining import Share
from zkbroker.consumer.group.listener import RebalanceListener
from zkbroker.consumer.group.membership import GroupMembership
from zkbroker.consumer.group.topics import GroupTopics
from zkbroker.errors import ClientError, ErrorCode, ZkbrokerError
from zkbroker.runtime import Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_SHORTEST_WAIT_S = 0.01

Offsets: TypeAlias = Mapping[PartitionKey, int | Committed]


class GroupSession:
    """The group's side of a consumer.

    Args:
        config: settings.
        cluster: gives connections, topics and partitions.
        assignors: the strategies supported, the preferred one first.
        held: the partitions that are held.
        fetchers: of these partitions.
        runtime: of the consumer.
        notify: called when `serve` has work; must not wait.
    """

    def __init__(
        self,
        config: GroupConsumerConfig,
        cluster: Cluster,
        assignors: Sequence[Assignor],
        *,
        held: HeldPartitions,
        fetchers: Fetchers,
        runtime: Runtime,
        notify: Callable[[], None],
    ) -> None:
        self._config = config
        self._assignors = assignors
        self._held = held
        self._fetchers = fetchers
        self._runtime = runtime
        self._notify = notify
        self._coordinator = CoordinatorConnection(
            cluster, config.group_id, runtime=runtime, backoff_ms=config.retry_backoff_ms
        )
        self.topics = GroupTopics(config, cluster, notify)
        self.offsets = MemberOffsets(config, self._coordinator, notify, self._fence)
        self.membership: GroupMembership | None = None
        self.listener = RebalanceListener()
        self.rebalances = 0
        self.share: Share | None = None
        """The share that is held as a member."""
        self._pending: Share | None = None
        self._commit_due = time.monotonic() + config.auto_commit_interval_ms / 1000
        self._last_automatic: dict[PartitionKey, int] = {}
        self._serving = False

    def join(self) -> None:
        """Join the group for the subscribed topics."""
        if self.membership is None:
            self.membership = GroupMembership(
                self._config,
                self._coordinator,
                self._assignors,
                partitions_of=self.topics.partitions_of,
                runtime=self._runtime,
                notify=self._notify,
            )
        self.membership.subscribe(self.topics.names)

    def leave(self, timeout_s: float) -> None:
        """Leave the group; call `give_up_all` first."""
        membership, self.membership = self.membership, None
        if membership is not None:
            membership.leave(timeout_s)

    def serve(self) -> None:
        """Do the work that has come up.

        Raises:
            ZkbrokerError: the group cannot be joined, or the offsets cannot be fetched.
            ClientError: a callback called it.
        """
        if self._serving:
            raise ClientError("a callback of poll must not poll: it may commit, seek and close")
        self._serving = True
        try:
            self.offsets.report()
            self._serve_membership()
            self._check_metadata()
            self._commit_automatically()
        finally:
            self._serving = False

    def seconds_to_next_task(self) -> float:
        """Return how long `serve` has no work unless `notify` is called."""
        due = self.topics.due_at
        if self._config.enable_auto_commit:
            due = min(due, self._commit_due)
        return max(_SHORTEST_WAIT_S, due - time.monotonic())

    def give_up_all(self, *, in_hand: bool = True) -> None:
        """Give up all partitions, after a last commit where commits are automatic.

        With `in_hand` the messages returned last count as processed.
        """
        # A share whose offsets could not be fetched is not taken up again under another membership.
        self._pending = None
        if in_hand:
            self._held.mark_processed()
        if self.share is not None:
            self._release(lost=self.membership is not None and self.membership.lost)
        elif self._commits_automatically:
            self._commit_last(self._held.processed())
        self._held.discard()
        self.offsets.report()

    def keep_only(self, keys: Collection[PartitionKey]) -> None:
        """Give up the partitions assigned by hand but these, after a commit as in `give_up_all`."""
        positions = self._held.positions() if self._commits_automatically else {}
        given_up = {key: at for key, at in positions.items() if key not in keys}
        if given_up:
            self._commit_last(given_up)
        self._held.keep_only(keys)

    # -- committing

    def commit(self, offsets: Offsets | None, timeout_s: float) -> None:
        """Commit and wait; see `GroupConsumer.commit`."""
        self.offsets.commit(self._to_commit(offsets), self.share, timeout_s)

    def commit_async(self, offsets: Offsets | None, on_commit: OnCommit | None) -> None:
        """Commit without waiting; see `GroupConsumer.commit_async`."""
        self.offsets.commit_async(self._to_commit(offsets), self.share, on_commit)

    @property
    def _commits_automatically(self) -> bool:
        return bool(
            self._config.enable_auto_commit and self._config.group_id and self._held.partitions
        )

    def _commit_automatically(self) -> None:
        if not self._commits_automatically:
            return
        now = time.monotonic()
        if now < self._commit_due or self.offsets.busy:
            return
        self._commit_due = now + self._config.auto_commit_interval_ms / 1000
        processed = self._held.processed()
        if processed != self._last_automatic:
            self._last_automatic = processed
            commits = {key: Committed(offset) for key, offset in processed.items()}
            self.offsets.commit_async(commits, self.share, self._note_commit)

    def _note_commit(self, offsets: Commits, error: Exception | None) -> None:
        if error is not None:
            self._last_automatic = {}
            logger.info("offsets not committed yet group=%s error=%s", self._config.group_id, error)

    def _commit_last(self, offsets: Offsets) -> None:
        """Commit before giving up; after a failure the messages are consumed again."""
        try:
            self.commit(offsets, self._config.session_timeout_ms / 1000)
        except ZkbrokerError as error:
            logger.warning("offsets not committed group=%s error=%s", self._config.group_id, error)

    def _to_commit(self, offsets: Offsets | None) -> dict[PartitionKey, Committed]:
        if not self._config.group_id:
            raise ClientError("commit needs a group.id")
        if offsets is None:
            offsets = self._held.positions()
        if offsets and self.membership is not None and self.share is None:
            # without a generation the coordinator would take it for a commit from outside the group
            raise CommitFailed(
                f"commit of group {self._config.group_id}: this member holds nothing at the moment"
            )
        given = {
            key: value if isinstance(value, Committed) else Committed(value)
            for key, value in offsets.items()
        }
        for each in given.values():
            check_offset(each.offset, "commit what beginning_offsets or end_offsets say")
        return given

    def _fence(self, error: ErrorCode) -> None:
        if self.membership is not None:
            self.membership.fence(error)

    # -- the membership

    def _serve_membership(self) -> None:
        membership = self.membership
        if membership is None:
            return
        membership.polled()
        error = membership.take_error()
        if error is not None:
            raise error
        if membership.ending:
            membership.take()
            self._pending = None
            self._release(lost=membership.lost)
            membership.released()
        self._pending = membership.take() or self._pending
        if self._pending is not None:
            self._hold(self._pending)
            self._pending = None

    def _hold(self, share: Share) -> None:
        committed = self.offsets.fetch(share.partitions)
        self.share = share
        self._last_automatic = {}
        self.rebalances += 1
        opened = self._held.add(share.partitions, committed)
        self.listener.on_partitions_assigned(list(share.partitions))
        self._fetchers.start(opened)

    def _release(self, *, lost: bool) -> None:
        """Give up the share; after a loss without a commit."""
        if self.share is None:
            return
        held = list(self._held.partitions)
        if lost:
            self._held.discard()
            self.listener.on_partitions_lost(held)
        else:
            if self._config.enable_auto_commit:
                self._commit_last(self._held.processed())
            self.listener.on_partitions_revoked(held)
            self._held.discard()
        self.share = None

    def _check_metadata(self) -> None:
        """Check whether the pattern matches other topics, or the partitions have changed."""
        membership = self.membership
        if membership is None or not self.topics.check_due:
            return
        try:
            if self.topics.check():
                membership.subscribe(self.topics.names)
            shared_out = None if self.share is None else self.share.shared_out
            if shared_out is not None:
                counts = self.topics.partitions_of({*shared_out, *self.topics.names}).counts
                if any(counts[topic] != shared_out.get(topic) for topic in counts):
                    membership.request_rejoin()
        except ZkbrokerError as error:
            self.topics.check_again()
            logger.info("metadata not read group=%s error=%s", self._config.group_id, error)
