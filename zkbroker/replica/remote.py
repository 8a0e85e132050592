"""A leader's knowledge of another broker's replica, and the rules of lag and ISR membership.

Invariant: a replica's log end is the offset of its last fetch: everything below it is in its log.
It was caught up at a given time if it then had everything that the leader had at that time.
"""

from dataclasses import dataclass

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**62)


@dataclass(slots=True)
class RemoteReplica:
    """A replica on another broker, as its fetches show it; times on the leader's monotonic clock.

    Args:
        broker_id: where it is.
        log_end_offset: -1 before its first fetch under this leadership.
        log_start_offset: -1 before its first fetch.
        caught_up_ms: when it was last caught up.
        fetched_ms: when it last fetched.
        leader_end_at_fetch: the leader's log end at that fetch.
    """

    broker_id: int
    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    caught_up_ms: int = NEVER_MS
    fetched_ms: int = NEVER_MS
    leader_end_at_fetch: int = UNKNOWN_OFFSET

    def begin_epoch(self, now_ms: int, *, in_sync: bool) -> None:
        """Keep the position and restart its lag; ISR members count as caught up now."""
        self.caught_up_ms = now_ms if in_sync else NEVER_MS
        self.fetched_ms = NEVER_MS
        self.leader_end_at_fetch = UNKNOWN_OFFSET

    def fetched(self, offset: int, log_start_offset: int, leader_end: int, now_ms: int) -> None:
        """Record a fetch.

        Args:
            offset: from which it fetches.
            log_start_offset: of its log; -1 where the request does not say.
            leader_end: the leader's log end when the fetch was served.
            now_ms: when the fetch was served.
        """
        if offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif offset >= self.leader_end_at_fetch >= 0:
            # It now has everything that the leader had at the previous fetch.
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = max(self.log_start_offset, log_start_offset)
        self.leader_end_at_fetch = leader_end
        self.fetched_ms = now_ms

    def lags(self, leader_end: int, now_ms: int, lag_ms: int) -> bool:
        """Whether it must leave the ISR: it has missed messages for longer than `lag_ms`."""
        return self.log_end_offset != leader_end and not self.keeps_up(now_ms, lag_ms)

    def keeps_up(self, now_ms: int, lag_ms: int) -> bool:
        """Whether it was caught up within the last `lag_ms`."""
        return now_ms - self.caught_up_ms <= lag_ms

    def may_join(self, high_watermark: int, epoch_start: int, log_start_offset: int) -> bool:
        """Whether it may enter the ISR.

        It needs everything up to the high watermark and up to the start of the leader's epoch. An
        earlier leader may have acknowledged messages above a high watermark that this leader has
        not seen yet; a replica that misses them must not be electable (KAFKA-7128).

        Its log, where the request names its start, must not begin below the leader's log start. The
        leader has no epochs for deleted messages and cannot tell where to truncate among them, and
        a replica with other messages there would serve them as leader. (Genuine brokers admit it.)
        """
        end, start = self.log_end_offset, self.log_start_offset
        began = start == UNKNOWN_OFFSET or start >= log_start_offset
        return began and end >= high_watermark and end >= epoch_start
