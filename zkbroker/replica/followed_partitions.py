"""The partitions of one fetcher: which are due, which wait, and which are copied no more.

    followed --> TRUNCATING ----> FETCHING
                  |     failure: retried after a delay that doubles up to the longest
                  |     leader epoch is over, or the answer cannot be used: FAILED, until the
                  |     controller decides again

Invariants: a partition is followed under one leader epoch. Work that was begun under another epoch
is recognised by its `Followed`, which is no longer the current one. A failed partition is no longer
followed, and stays in `failed` until the controller decides again.
"""

import logging

from zkbroker.errors import CorruptMessage, ErrorCode, NotLeaderForPartition, ZkbrokerError
from zkbroker.log import TopicPartition
from zkbroker.replica.fetching import Followed
from zkbroker.replica.following import Following
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

FIRST_BACKOFF_MS = 50
_QUIET = {
    ErrorCode.NOT_LEADER_FOR_PARTITION,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""Errors of a leader that has not received the controller's last decision yet."""


class FollowedPartitions:
    """The partitions that one fetcher copies from its leader.

    Args:
        leader: id of that broker, for log messages.
        runtime: its clock.
        backoff_ms: longest time before a failure is retried.
    """

    def __init__(self, leader: int, *, runtime: Runtime, backoff_ms: int) -> None:
        self._leader = leader
        self._clock_ms = runtime.clock_ms
        self._backoff_ms = backoff_ms
        self.by_key: dict[TopicPartition, Followed] = {}
        """The followed partitions, in the order in which they are fetched."""
        self.failed: set[TopicPartition] = set()
        """Partitions that are not copied until the controller decides again."""

    def __bool__(self) -> bool:
        """Whether anything is followed."""
        return bool(self.by_key)

    def follow(self, following: Following, *, truncating: bool) -> None:
        """Follow a partition under the leader epoch of a role."""
        self.failed.discard(following.key)
        self.by_key[following.key] = Followed(following, truncating)

    def forget(self, key: TopicPartition) -> None:
        """Stop following a partition."""
        self.failed.discard(key)
        self.by_key.pop(key, None)

    @property
    def idle(self) -> bool:
        """Whether nothing is followed, and nothing waits for the controller."""
        return not self.by_key and not self.failed

    def clear(self) -> None:
        """Stop following every partition."""
        self.by_key.clear()

    def current(self, followed: Followed) -> bool:
        """Whether it is still followed under the same epoch."""
        return self.by_key.get(followed.key) is followed

    def due(self, *, truncating: bool) -> list[Followed]:
        """Return the partitions to truncate, or to fetch, that are not delayed."""
        now = self._clock_ms()
        return [
            each
            for each in self.by_key.values()
            if each.truncating is truncating and each.delayed_until_ms <= now
        ]

    def next_due_s(self) -> float:
        """Return after how many seconds to check again when nothing is due now."""
        now = self._clock_ms()
        waits = [
            each.delayed_until_ms - now
            for each in self.by_key.values()
            if each.delayed_until_ms > now
        ]
        # A partition that is neither due nor delayed is throttled.
        return max(0, min([self._backoff_ms, *waits])) / 1000

    def ask_last(self, followed: Followed) -> None:
        """Put it behind the others, so that partitions without an answer come first next time."""
        self.by_key[followed.key] = self.by_key.pop(followed.key)

    def lags(self) -> dict[TopicPartition, int]:
        """Return how many messages each partition misses, where that is known."""
        return {key: each.lag for key, each in self.by_key.items() if each.lag is not None}

    # -- failures

    def delay(self, followed: Followed, why: object, *, quietly: bool = False) -> None:
        """Retry a partition later: soon at first, then after up to the configured backoff."""
        repeated = followed.backoff_ms > 0
        followed.backoff_ms = min(self._backoff_ms, 2 * followed.backoff_ms or FIRST_BACKOFF_MS)
        followed.delayed_until_ms = self._clock_ms() + followed.backoff_ms
        level = logging.DEBUG if repeated or quietly else logging.WARNING
        logger.log(
            level,
            "partition not copied, will retry partition=%s leader=%d epoch=%d reason=%s",
            followed.key,
            self._leader,
            followed.following.leader_epoch,
            why,
        )

    def refused(self, followed: Followed, code: int) -> None:
        """Handle an error that the leader answered for a partition."""
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            del self.by_key[followed.key]
            logger.info(
                "leader epoch is over, waiting for the controller partition=%s epoch=%d",
                followed.key,
                followed.following.leader_epoch,
            )
            self.failed.add(followed.key)
        else:
            self.delay(followed, _name(code), quietly=code in _QUIET)

    def local(self, followed: Followed, error: ZkbrokerError) -> None:
        """Handle an error of this broker's own replica."""
        if not self.current(followed) or isinstance(error, NotLeaderForPartition):
            return  # another role or epoch has begun
        if isinstance(error, CorruptMessage):
            # The bytes may have been damaged on their way.
            self.delay(followed, error)
            return
        del self.by_key[followed.key]
        self.failed.add(followed.key)
        logger.error(
            "partition not copied until the controller decides again "
            "partition=%s leader=%d epoch=%d reason=%s",
            followed.key,
            self._leader,
            followed.following.leader_epoch,
            error,
        )


def _name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
