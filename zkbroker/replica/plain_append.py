"""A leader's short way to append the plain sets that nearly all producers send.

Invariant: it does what `Leadership.append` does, and leaves every other case to that: a set that
needs a closer check, a role that another task is changing, too few replicas in sync. It never
waits, so that no other task sees it half done, and takes no lock.
"""

from zkbroker.log import AppendResult
from zkbroker.replica.leadership import Leadership


def append_plain(
    leadership: Leadership, data: memoryview, magics: int, acks: int
) -> AppendResult | None:
    """Append a plain set.

    Args:
        leadership: of the partition.
        data: the set; patched in place.
        magics: the magics that the request may hold, bit 0 for magic 0 and so on.
        acks: of the request.

    Returns:
        The result; None, with nothing changed, if `Leadership.append` must do it.

    Raises:
        ProtocolError, StorageError: see `LogWriter.append_plain`; or the leadership is over.
    """
    log = leadership.log
    if getattr(leadership.replica.lock, "depth", True) or (
        acks == -1 and len(leadership.isr.members) < log.config.min_insync_replicas
    ):
        return None
    result = log.writer.append_plain(data, magics, leadership.leader_epoch)
    if result is None:
        return None
    waiters = leadership.waiters
    if leadership.remote or waiters.appends or waiters.marks or result.duplicate:
        return leadership.appended(result)
    if not leadership.isr.superseded:
        leadership.high_watermark = log.log_end_offset
    return result
