"""The settings and connections of a fetcher, and the state of each partition that it copies.

Invariant: a partition under another leader epoch gets another `Followed`. Work that was begun for
the previous one is recognised by that, and dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from zkbroker.log import TopicPartition
from zkbroker.replica.following import Following


class LeaderConnection(Protocol):
    """A way to one broker."""

    def send(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer.

        Raises:
            ZkbrokerError: no answer came in time; the connection cannot be used any more.
        """

    def close(self) -> None:
        """Close it; a `send` that waits fails soon."""


Connect = Callable[[int, int], LeaderConnection]
"""Makes a connection to a broker (id) for a fetcher (number); raises for an unknown broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherSettings:
    """How followers fetch. Sizes in bytes, times in milliseconds.

    Args:
        level: `inter.broker.protocol.version`, which fixes the versions of requests.
        fetchers: tasks for each leader (`num.replica.fetchers`).
        max_bytes: of one partition in one answer, or one batch (`replica.fetch.max.bytes`).
        response_max_bytes: of one answer (`replica.fetch.response.max.bytes`).
        min_bytes: that a leader waits for (`replica.fetch.min.bytes`).
        max_wait_ms: how long it waits (`replica.fetch.wait.max.ms`).
        backoff_ms: longest time before a failure is retried (`replica.fetch.backoff.ms`).
    """

    level: str = "2.3"
    fetchers: int = 1
    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 500
    backoff_ms: int = 1000


@dataclass(slots=True, eq=False)
class Followed:
    """A partition that is copied under one leader epoch; another epoch gets another object.

    Args:
        following: this broker's role, under that epoch.
        truncating: whether its log is to be truncated next; otherwise it is fetched.
        delayed_until_ms: when to go on; 0 for at once.
        backoff_ms: the last delay.
        lag: missing messages up to the leader's high watermark; None before the first answer.
        max_bytes: fetch size that replaces the configured one after a batch that did not fit.
    """

    following: Following
    truncating: bool = True
    delayed_until_ms: int = 0
    backoff_ms: int = 0
    lag: int | None = None
    max_bytes: int = 0

    @property
    def key(self) -> TopicPartition:
        return self.following.key
