"""Where a follower truncates its log, so that the rest is a prefix of its leader's.

    the log has no epochs, or its leader cannot be asked: at the high watermark
    else the leader says where the last epoch of this log ends in its own log:
      it does not know          at the high watermark
      an offset without epoch   at that offset (leaders before 2.0)
      an epoch of this log      where that epoch ends here or there, whichever comes first
      an epoch between two      where the older of the two ends here; then ask again
      an epoch before all       at the offset that the leader answered

Invariant: a cut by the leader's answer never keeps a message that the leader does not have at that
offset under that epoch, and never removes one that it has. A cut at the high watermark can do both
(KIP-101); it is for logs without any other information. Two changes of leader in quick succession
make it necessary to ask again (KIP-279); each answer names a smaller epoch, so this ends.
"""

from collections.abc import Callable
from typing import NamedTuple

from zkbroker.protocol.messages.offset_for_leader_epoch import UNDEFINED_EPOCH, UNDEFINED_OFFSET


class TruncationPoint(NamedTuple):
    """Args: offset is where to cut; complete is False when the leader is to be asked again."""

    offset: int
    complete: bool


def cut_without_epochs(high_watermark: int, log_end_offset: int) -> TruncationPoint:
    """Return where to cut a log that cannot be compared by epochs."""
    return TruncationPoint(min(high_watermark, log_end_offset), complete=True)


def cut_by_answer(
    leader_epoch: int,
    leader_end: int,
    *,
    high_watermark: int,
    log_end_offset: int,
    own_end_of: Callable[[int], tuple[int, int]],
) -> TruncationPoint:
    """Return where to cut a log by its leader's answer.

    Args:
        leader_epoch: the leader's last epoch that is not newer than the requested one; -1 from
            leaders that do not tell.
        leader_end: where that epoch ends in the leader's log; -1 where it does not know.
        high_watermark: of the follower.
        log_end_offset: of the follower.
        own_end_of: the same answer from the follower's own log.
    """
    if leader_end == UNDEFINED_OFFSET:
        return cut_without_epochs(high_watermark, log_end_offset)
    if leader_epoch == UNDEFINED_EPOCH:
        return TruncationPoint(min(leader_end, log_end_offset), complete=True)
    own_epoch, own_end = own_end_of(leader_epoch)
    if own_end == UNDEFINED_OFFSET:
        return TruncationPoint(min(leader_end, log_end_offset), complete=True)
    if own_epoch != leader_epoch:
        return TruncationPoint(min(own_end, log_end_offset), complete=False)
    return TruncationPoint(min(own_end, leader_end, log_end_offset), complete=True)
