"""Membership in a coordinator's group: one owner loop that joins, beats and leaves.

    idle --wanted--> joining --> offered --take--> member --rebalance--> ending
                        ▲                            │                     │ released
                        ├────────── fenced (lost) ◄──┘                     │
                        └──────────────────────────────────────────────────┘

Invariants:
- The loop runs in a task of its own, so a member that is busy with its messages still sends
  heartbeats; one that has not polled for `max.poll.interval.ms` leaves.
- Partitions change hands in two steps: the loop offers a share, which the consumer takes
  (`take`); the loop asks for it back, and the consumer releases it (`released`) before the loop
  joins again. So callbacks run in the user's task, and nothing is consumed under a generation
  that is over.
- When the coordinator has not answered for the session time-out, the session may be over and the
  member counts its share as lost. It rejoins under the same member id while the coordinator may
  know it, even after error 22 (another generation): with a new id it would make the group wait
  for its old one.
"""

import logging
import time
from collections.abc import Callable, Sequence

from zkbroker.client import BrokerUnavailable, NoBrokersAvailable
from zkbroker.client.coordinator import RETRIED, CoordinatorConnection
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group.assignors import Assignor, ClusterPartitions
from zkbroker.consumer.group.joining import FENCED, JoinExchange, Share
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, ZkbrokerError, protocol_error
from zkbroker.protocol.messages import HeartbeatRequest, LeaveGroupRequest
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

_REJOIN_PAUSE_S = 0.02
_LEAVE_LANE = "group-leave"


class GroupMembership:
    """One member of one group.

    Args:
        config: settings.
        coordinator: asks the coordinator.
        assignors: the strategies supported, the preferred one first.
        partitions_of: returns the partitions of topics, for the leader to assign.
        runtime: for the task.
        notify: called when there is a share to take or release, or an error; must not wait.
    """

    def __init__(
        self,
        config: GroupConsumerConfig,
        coordinator: CoordinatorConnection,
        assignors: Sequence[Assignor],
        *,
        partitions_of: Callable[[frozenset[str]], ClusterPartitions],
        runtime: Runtime,
        notify: Callable[[], None],
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._notify = notify
        self._wake = runtime.event()
        self._exchange = JoinExchange(
            config,
            coordinator,
            assignors,
            partitions_of=partitions_of,
            wake=self._wake,
            closing=lambda: self._closing,
        )
        self._topics: frozenset[str] = frozenset()
        self._joined_topics: frozenset[str] = frozenset()
        self._wanted = False
        self._closing = False
        self._rejoin = False
        self._released = True
        self._polled_at = time.monotonic()
        self._member_id = ""
        self._backoff_s = config.retry_backoff_ms / 1000
        self.offered: Share | None = None
        """The share that the consumer should take; reset by `take`."""
        self.share: Share | None = None
        """The share that the consumer holds, until it is released or lost."""
        self.ending = False
        """Whether the consumer should release its share."""
        self.lost = False
        """Whether the share was lost, so that its offsets can no longer be committed."""
        self.error: ZkbrokerError | None = None
        """Why the member cannot join; reset when raised."""
        self._task = runtime.spawn(self._run, name=f"group-{config.group_id}")

    # -- the consumer's side

    def subscribe(self, topics: frozenset[str]) -> None:
        """Subscribe to these topics; a member whose topics change rejoins."""
        self._topics = topics
        self._wanted = True
        if topics != self._joined_topics:
            self._rejoin = True
        self._wake.set()

    def request_rejoin(self) -> None:
        """Make the group assign again, since there are more partitions."""
        self._rejoin = True
        self._wake.set()

    def polled(self) -> None:
        """Note that the consumer has polled."""
        idle = self._idle()
        self._polled_at = time.monotonic()
        if idle:
            self._wake.set()

    def take(self) -> Share | None:
        """Take the share that is offered."""
        share, self.offered = self.offered, None
        return share

    def released(self) -> None:
        """Confirm that the consumer no longer consumes under the ending share."""
        self.share = None
        self.ending = False
        self.lost = False
        self._released = True
        self._wake.set()

    def fence(self, error: ErrorCode) -> None:
        """Note that the coordinator refused a commit of this generation."""
        self._lose_share(f"commit refused: {error.name}", error)
        self._wake.set()

    def take_error(self) -> ZkbrokerError | None:
        """Return the reason why the member cannot join, once."""
        error, self.error = self.error, None
        if error is not None:
            self._wanted = True  # the next poll tries again
            self._wake.set()
        return error

    def leave(self, timeout_s: float) -> None:
        """Leave the group and end the loop."""
        self._closing = True
        self._wake.set()
        self._task.join(timeout_s)

    # -- the loop

    def _run(self) -> None:
        while not self._closing:
            try:
                if not self._wanted or not self._released or self._idle():
                    self._wait(1.0)
                elif self._join():
                    self._send_heartbeats()
                else:
                    self._wait(min(self._backoff_s, _REJOIN_PAUSE_S))
            except ZkbrokerError as error:
                if _passes(error):
                    logger.info("join tried again group=%s error=%s", self._config.group_id, error)
                    if isinstance(error, ProtocolError):
                        self._coordinator.lost(error)
                else:
                    logger.error("join failed group=%s error=%s", self._config.group_id, error)  # noqa: TRY400 - the consumer raises it
                    self._fail(error)
                self._wait(self._backoff_s)
            except Exception as error:
                # The user's assignor, or a defect: `poll` raises it instead of waiting for ever.
                logger.exception("join failed group=%s", self._config.group_id)
                self._fail(
                    ClientError(f"group {self._config.group_id} cannot be joined: {error!r}")
                )
                self._wait(self._backoff_s)
        self._leave_group()

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _idle(self) -> bool:
        return time.monotonic() - self._polled_at > self._config.max_poll_interval_ms / 1000

    def _fail(self, error: ZkbrokerError) -> None:
        self._wanted = False  # until the consumer takes it
        self.error = error
        self._notify()

    def _join(self) -> bool:
        """Join and sync once; return whether a share is offered."""
        topics = self._topics
        self._rejoin = False
        try:
            share = self._exchange.join(self._member_id, topics)
        finally:
            self._member_id = self._exchange.member_id
        if share is None:
            return False
        self._joined_topics = topics
        self._released = False
        self.share = self.offered = share
        self._notify()
        return True

    def _send_heartbeats(self) -> None:
        """Send heartbeats until the share is released or lost."""
        interval_s = self._config.heartbeat_interval_ms / 1000
        session_s = self._config.session_timeout_ms / 1000
        heard_at = beat_at = time.monotonic()
        while not self._closing and not self._released:
            self._wait(max(0.0, beat_at + interval_s - time.monotonic()))
            if self._closing or self._released or self.lost:
                if self.lost and not self._released:
                    self._wait(1.0)
                continue
            if self._rejoin and not self.ending:
                self._end("asked for")
            if self._idle():
                logger.warning(
                    "left group=%s: no poll for max.poll.interval.ms=%d",
                    self._config.group_id,
                    self._config.max_poll_interval_ms,
                )
                self._leave_group()
                self._lose_share("no poll")
                continue
            now = time.monotonic()
            if now < beat_at + interval_s:
                continue
            beat_at = now
            if self._heartbeat(session_s - (now - heard_at)):
                heard_at = now
            elif time.monotonic() - heard_at >= session_s:
                self._lose_share("no answer for the session time-out")

    def _heartbeat(self, patience_s: float) -> bool:
        """Send one heartbeat; return whether the coordinator answered."""
        share = self.share
        if share is None:
            return True
        request = HeartbeatRequest(self._config.group_id, share.generation, share.member_id)
        try:
            code = self._coordinator.send(request).result(max(0.1, patience_s)).error_code
        except ProtocolError as error:
            self._coordinator.lost(error)
            logger.info("heartbeat failed group=%s error=%s", self._config.group_id, error)
            return False
        if code == ErrorCode.NONE:
            return True
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._end("group rebalances")
            return True
        if code in FENCED:
            self._lose_share(ErrorCode(code).name, ErrorCode(code))
            return True
        self._coordinator.lost(protocol_error(code))
        return False

    def _end(self, reason: str) -> None:
        if not self.ending:
            logger.info("share ends group=%s reason=%s", self._config.group_id, reason)
            self.ending = True
            self._notify()

    def _lose_share(self, reason: str, error: ErrorCode = ErrorCode.NONE) -> None:
        """Count the share as lost; the member keeps its id while the coordinator may know it."""
        if self.share is not None and not self.lost:
            logger.warning("share lost group=%s reason=%s", self._config.group_id, reason)
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                self._member_id = ""
            self.lost = True
            self.ending = True
            self._notify()

    def _leave_group(self) -> None:
        member_id, self._member_id = self._member_id, ""
        if not member_id:
            return
        request = LeaveGroupRequest(self._config.group_id, member_id)
        # a connection with a waiting JoinGroup answers nothing else before it
        lane = _LEAVE_LANE if self._exchange.waits else None
        try:
            self._coordinator.send(request, lane).result(self._config.request_timeout_ms / 1000)
        except ProtocolError as error:
            logger.info("leave not confirmed group=%s error=%s", self._config.group_id, error)


def _passes(error: ZkbrokerError) -> bool:
    """Whether joining may work later."""
    if isinstance(error, ProtocolError):
        return error.code in RETRIED or error.code.retriable
    return isinstance(error, NoBrokersAvailable | BrokerUnavailable)
