"""How a member gets its share: JoinGroup, the leader's assignment, SyncGroup.

member                      coordinator                    leader
  JoinGroup ------------------>  waits for all  <------------ JoinGroup
  generation, leader <---------                 -----------> ..., metadata of all members
  SyncGroup ------------------>  waits for it   <------------ SyncGroup, shares of all
  share <----------------------                 -----------> its own share
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zkbroker.client.coordinator import CoordinatorConnection
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group.assignors import (
    Assignor,
    ClusterPartitions,
    MemberAssignment,
    MemberSubscription,
)
from zkbroker.errors import ErrorCode, protocol_error
from zkbroker.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    flatten,
    group_by_topic,
)
from zkbroker.protocol.messages import JoinGroupRequest, JoinGroupResponse, SyncGroupRequest
from zkbroker.protocol.messages.membership import JoinGroupProtocol, SyncGroupAssignment
from zkbroker.runtime import Event
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
"""Errors of a group that is in a later generation, without this member."""

_SLACK_S = 5.0
_LOOK_UP_S = 1.0
_MOVED_LOOK_S = 5.0
"""Time between two look-ups of the coordinator while an answer is outstanding."""
_MOVED_LOOKS = 2
"""Look-ups in a row that must name a new coordinator: a single broker may lag."""


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions of a member in one generation.

    `shared_out` has the partition counts on which the shares are based, if the member leads.
    """

    generation: int
    member_id: str
    partitions: tuple[PartitionKey, ...]
    shared_out: Mapping[str, int] | None = None


class JoinExchange:
    """Joins a group, again and again, for one member.

    Args:
        config: settings.
        coordinator: asks the coordinator.
        assignors: the strategies supported, the preferred one first.
        partitions_of: returns the partitions of topics, for the leader to assign.
        wake: set when an answer comes, or when something else changed.
        closing: whether to give up.
    """

    def __init__(
        self,
        config: GroupConsumerConfig,
        coordinator: CoordinatorConnection,
        assignors: Sequence[Assignor],
        *,
        partitions_of: Callable[[frozenset[str]], ClusterPartitions],
        wake: Event,
        closing: Callable[[], bool],
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._partitions_of = partitions_of
        self._wake = wake
        self._closing = closing
        self._timeout_s = config.max_poll_interval_ms / 1000 + _SLACK_S
        self.member_id = ""
        """The member id of the next join; "" once the coordinator has forgotten the member."""
        self.waits = False
        """Whether an answer is outstanding."""

    def join(self, member_id: str, topics: frozenset[str]) -> Share | None:
        """Join and sync once.

        Args:
            member_id: as the coordinator gave it; "" for a newcomer.
            topics: what to subscribe to.

        Returns:
            None when the group moved on meanwhile, and the member has to join again.

        Raises:
            ProtocolError: the coordinator refuses, or cannot be reached.
            ZkbrokerError: as leader, the partitions cannot be read.
        """
        self.member_id = member_id
        joined: JoinGroupResponse | None = self._answer(
            JoinGroupRequest(
                group_id=self._config.group_id,
                session_timeout_ms=self._config.session_timeout_ms,
                rebalance_timeout_ms=self._config.max_poll_interval_ms,
                member_id=member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=self._subscriptions(topics),
            )
        )
        if joined is None:
            return None
        self.member_id = joined.member_id
        leads = joined.leader == joined.member_id
        assignor = self._assignors[joined.protocol_name]
        shared_out: Mapping[str, int] | None = None
        shares: list[SyncGroupAssignment] = []
        if leads:
            shared_out, shares = self._share_out(assignor, joined)
        synced = self._answer(
            SyncGroupRequest(
                group_id=self._config.group_id,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                assignments=shares,
            )
        )
        if synced is None:
            return None
        assigned = decode_assignment(synced.assignment)
        partitions = tuple(flatten(assigned.assigned))
        assignor.on_assignment(
            MemberAssignment(partitions, assigned.user_data), joined.generation_id
        )
        logger.info(
            "joined group=%s generation=%d member=%s leader=%s strategy=%s partitions=%d",
            self._config.group_id,
            joined.generation_id,
            self.member_id,
            leads,
            joined.protocol_name,
            len(partitions),
        )
        return Share(joined.generation_id, self.member_id, partitions, shared_out)

    def _subscriptions(self, topics: frozenset[str]) -> list[JoinGroupProtocol]:
        return [
            JoinGroupProtocol(
                name, encode_subscription(Subscription(sorted(topics), each.user_data(topics)))
            )
            for name, each in self._assignors.items()
        ]

    def _share_out(
        self, assignor: Assignor, joined: JoinGroupResponse
    ) -> tuple[Mapping[str, int], list[SyncGroupAssignment]]:
        members = {}
        for member in joined.members:
            subscription = decode_subscription(member.metadata)
            members[member.member_id] = MemberSubscription(
                frozenset(subscription.topics), subscription.user_data
            )
        topics = frozenset[str]().union(*(member.topics for member in members.values()))
        cluster = self._partitions_of(topics)
        shares = assignor.assign(cluster, members)
        nothing = MemberAssignment()
        assignments = []
        for member_id in members:
            share = shares.get(member_id, nothing)
            encoded = Assignment(group_by_topic(share.partitions), share.user_data)
            assignments.append(SyncGroupAssignment(member_id, encode_assignment(encoded)))
        return dict(cluster.counts), assignments

    def _answer(self, request: Any) -> Any:
        """Ask once; None when the group moved on and the member has to join again.

        Raises:
            ProtocolError: any other error.
        """
        pending = self._coordinator.send(request)
        asked, moved, look_at = self._coordinator.broker_id, 0, time.monotonic() + _MOVED_LOOK_S
        self.waits = True
        pending.add_done_callback(lambda _: self._wake.set())
        deadline = time.monotonic() + self._timeout_s
        while not pending.done and time.monotonic() < deadline:
            if self._closing():
                return None
            self._wake.wait(_LOOK_UP_S)
            self._wake.clear()
            if time.monotonic() >= look_at and not pending.done:
                # The group may take minutes to join; a coordinator that hangs looks the same.
                moved = moved + 1 if self._coordinator.moved_from(asked) else 0
                if moved == _MOVED_LOOKS:
                    deadline = 0.0
                look_at = time.monotonic() + _MOVED_LOOK_S
        self.waits = False
        response = pending.result(max(0.0, deadline - time.monotonic()))
        code = response.error_code
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code in FENCED or code == ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        if code != ErrorCode.NONE:
            raise protocol_error(code, f"group {self._config.group_id}")
        return response
