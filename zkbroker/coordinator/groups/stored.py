"""Groups and members to and from what is stored of them in the offsets topic."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zkbroker.coordinator.groups.member import Member
from zkbroker.protocol.offsets_topic import GroupMemberValue, GroupValue

if TYPE_CHECKING:
    from zkbroker.coordinator.groups.group import Group


def group_value(group: "Group", assignments: Mapping[str, bytes]) -> GroupValue:
    """The value that is stored of a group.

    Args:
        group: as it is.
        assignments: those of its members; they may not hold them yet.
    """
    return GroupValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp_ms=group.state_since_ms,
        members=[
            GroupMemberValue(
                member_id=member.member_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(group.protocol),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )


def restored_member(stored: GroupMemberValue, protocol: str | None, now_ms: int) -> Member:
    """A member as it was stored; its session begins anew."""
    rebalance_timeout_ms = stored.rebalance_timeout_ms
    return Member(
        member_id=stored.member_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms
        if rebalance_timeout_ms >= 0
        else stored.session_timeout_ms,
        protocols=((protocol or "", stored.subscription),),
        deadline_ms=now_ms + stored.session_timeout_ms,
        assignment=stored.assignment,
        synced=True,
    )
