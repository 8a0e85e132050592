"""The settings and connections of a fetcher, and the state of each partition that it copies.

Invariant: a partition under another leader epoch gets another `Followed`; what was begun for the
one before it is recognised by that, and dropped.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from zkbroker.log import TopicPartition
from zkbroker.replica.following import Following


class LeaderConnection(Protocol):
    """A way to one broker."""

    def send(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer.

        Raises:
            ZkbrokerError: there was none in time; this connection is of no more use.
        """

    def close(self) -> None:
        """Close it; a `send` that waits fails soon."""


Connect = Callable[[int, int], LeaderConnection]
"""Makes a connection to a broker (id) for a fetcher (number); it raises where that is not known."""


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
        backoff_ms: longest time before what failed is tried again (`replica.fetch.backoff.ms`).
    """

    level: str = "2.3"
    fetchers: int = 1
    max_bytes: int = 1024 * 1024
    response_max_bytes: int = 10 * 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 500
    backoff_ms: int = 1000


class Stage(Enum):
    """What is to be done next for a partition."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"


@dataclass(slots=True, eq=False)
class Followed:
    """A partition under one leader epoch; another epoch makes another one of these.

    Args:
        following: this broker's role, under that epoch.
        stage: see there.
        delayed_until_ms: not before then; 0 for at once.
        backoff_ms: how long it was delayed last.
        lag: messages up to the leader's high watermark that are missing; None before the first
            answer.
        max_bytes: asked for in place of the usual, after a batch that did not fit.
    """

    following: Following
    stage: Stage = Stage.TRUNCATING
    delayed_until_ms: int = 0
    backoff_ms: int = 0
    lag: int | None = None
    max_bytes: int = 0

    @property
    def key(self) -> TopicPartition:
        return self.following.key


@dataclass(slots=True)
class FetcherCounts:
    """Args: bytes_in and requests only grow; failed is of now."""

    bytes_in: int = 0
    requests: int = 0
