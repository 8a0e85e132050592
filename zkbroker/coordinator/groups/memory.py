"""Limits the coordinator's memory for the members of all groups.

Invariant: groups with their members' metadata and assignments take at most about the limit. A
member that would exceed it is refused; existing members stay.
"""

import logging

from zkbroker.coordinator.groups.group import Group
from zkbroker.coordinator.groups.member import JoinRequest

logger = logging.getLogger(__name__)

_WARN_EVERY_MS = 10_000


class GroupMemory:
    """Counts bytes of groups against a limit.

    Args:
        limit_bytes: for all groups together.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._sizes: dict[Group, int] = {}
        self._warned_ms: int | None = None
        self.used = 0
        """Bytes counted at present."""

    def note(self, group: Group) -> None:
        """Count a group with its present size."""
        size = group.size_bytes
        self.used += size - self._sizes.get(group, 0)
        self._sizes[group] = size

    def forget(self, group: Group) -> None:
        """Stop counting a group."""
        self.used -= self._sizes.pop(group, 0)

    def has_room_for_join(self, group: Group | None, request: JoinRequest, now_ms: int) -> bool:
        """Whether a member's join fits, in place of what it already takes; None is a new group."""
        known = None if group is None else group.members.get(request.member_id)
        before = 0 if known is None else known.size_bytes
        return self._fits(request.size_bytes - before, request.client_id, now_ms)

    def has_room_for_assignments(
        self, group: Group, assignments: dict[str, bytes], now_ms: int
    ) -> bool:
        """Whether a leader's assignments fit."""
        more = sum(
            len(assignments.get(member.member_id, b"")) - len(member.assignment)
            for member in group.members.values()
        )
        return self._fits(more, group.group_id, now_ms)

    def _fits(self, more: int, whose: str, now_ms: int) -> bool:
        if more <= 0 or self.used + more <= self._limit:
            return True
        if self._warned_ms is None or now_ms - self._warned_ms >= _WARN_EVERY_MS:
            self._warned_ms = now_ms
            logger.warning(
                "group member refused of=%s bytes=%d: groups take %d bytes of "
                "group.metadata.max.bytes=%d",
                whose,
                more,
                self.used,
                self._limit,
            )
        return False
