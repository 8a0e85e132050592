"""Requests to leaders, repeated while leaders move.

    ask ──answer──▶ done
     └──an error that may pass──▶ fresh metadata ──▶ ask at once ──▶ … ──pause, metadata──▶ ask

Invariant: fresh metadata is tried once at least, whatever the time given, and an error that does
not pass by itself is raised at once. The wait is bounded by a time, a shorter one for a partition
that does not exist: only a broker that has just started, or just become leader, may not know it.
"""

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, TypeVar

from zkbroker.errors import (
    ClientError,
    CorruptMessage,
    ProtocolError,
    RegistryError,
    UnknownTopicOrPartition,
    ZkbrokerError,
)

if TYPE_CHECKING:
    from zkbroker.client.cluster import Cluster

LEADER_WAIT_S = 10.0
"""How long to look for a leader by default: longer than the time-out of a broker's session."""

_BACKOFF_S = 0.1
_UNKNOWN_TRIES = 5

T = TypeVar("T")


def may_pass(error: ZkbrokerError) -> bool:
    """Whether the same request may succeed after leaders or brokers have changed."""
    if isinstance(error, ProtocolError):
        # A damaged log stays damaged.
        return error.code.retriable and not isinstance(error, CorruptMessage)
    return isinstance(error, ClientError | RegistryError)


def retry_requests(
    cluster: "Cluster",
    topics: Collection[str],
    ask: Callable[[], T],
    *,
    timeout_s: float = LEADER_WAIT_S,
) -> T:
    """Ask until there is an answer, or an error that does not pass.

    Args:
        cluster: is refreshed before each new try.
        topics: the topics to refresh.
        ask: asks once, the leaders that are known then.
        timeout_s: how long to look for leaders; with 0 fresh metadata is tried once.

    Raises:
        ZkbrokerError: the last error of `ask`.
    """
    deadline = time.monotonic() + timeout_s
    tries = 0
    while True:
        try:
            return ask()
        except ZkbrokerError as failure:
            if not may_pass(failure):
                raise
            over = time.monotonic() + _BACKOFF_S >= deadline
            unknown = isinstance(failure, UnknownTopicOrPartition) and tries >= _UNKNOWN_TRIES
            if tries and (over or unknown):
                raise
        if tries:
            cluster.runtime.sleep(_BACKOFF_S)
        tries += 1
        try:
            cluster.refresh(sorted(topics))
        except ZkbrokerError:
            if over:
                raise
