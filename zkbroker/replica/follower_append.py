"""Appends a leader's answer in small parts, so that other tasks get their turn.

Invariant: whole entries are appended unchanged and in order; an incomplete last entry is left out
and fetched again.
"""

from collections.abc import Callable

from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.log.segments.entries import first_offset
from zkbroker.records import iter_entries
from zkbroker.replica.following import Following

APPEND_BYTES = 128 * 1024


def append_in_parts(
    following: Following,
    data: memoryview,
    *,
    go_on: Callable[[], bool],
    pause: Callable[[], object],
) -> int:
    """Append fetched entries; returns how many bytes were whole entries.

    Args:
        following: the role under which it was fetched.
        data: entries; the last one may be incomplete.
        go_on: asked before each part.
        pause: called between parts.

    Raises:
        ZkbrokerError: see `Following.append`; what came before is appended.
    """
    done, part_bytes = 0, APPEND_BYTES
    while done < len(data) and go_on():
        part = data[done : done + part_bytes]
        size = _append(following, part)
        done += size
        if size:
            part_bytes = APPEND_BYTES
            if done < len(data):
                pause()
        elif done + len(part) >= len(data):
            break  # the last entry is incomplete
        else:
            part_bytes *= 2
    return done


def _append(following: Following, part: memoryview) -> int:
    try:
        return following.append(part).size_bytes
    except ProtocolError as error:
        first = next(iter_entries(part), None)
        empty = following.log_start_offset == following.log_end_offset
        if (
            error.code != ErrorCode.UNKNOWN_SERVER_ERROR
            or not empty
            or first is None
            or first.last_offset < following.log_end_offset
        ):
            raise
        # The leader's log begins inside a batch: this log, empty, begins with the whole batch.
        following.restart_at(first_offset(bytes(part[: first.size])))
        return following.append(part).size_bytes
