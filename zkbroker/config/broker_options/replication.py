"""How replicas are copied, and when one counts as in sync.

Invariant: waiting for messages puts no follower out of sync and lets no request time out.
"""

from dataclasses import dataclass

from zkbroker.config.schema import Int32, Ms, option
from zkbroker.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ReplicationOptions:
    """Followers, and what leaders expect of them."""

    # fmt: off
    replica_lag_ms: int = option("replica.lag.time.max.ms", Int32(1), 10_000,
        "Time in ms after which a replica that has not caught up with its leader counts as out of "
        "sync.")
    replica_fetchers: int = option("num.replica.fetchers", Int32(1), 1,
        "Number of fetchers for each other broker, each with a connection of its own.")
    replica_fetch_max_bytes: int = option("replica.fetch.max.bytes", Int32(1), 1024 * 1024,
        "Bytes of one partition that a follower asks for in one fetch; one batch may be larger.")
    replica_fetch_response_max_bytes: int = option(
        "replica.fetch.response.max.bytes", Int32(1), 10 * 1024 * 1024,
        "Bytes of all partitions that a follower asks for in one fetch; one batch may be larger.")
    replica_fetch_min_bytes: int = option("replica.fetch.min.bytes", Int32(0), 1,
        "Bytes that a leader waits for before it answers a follower.")
    replica_fetch_wait_ms: int = option("replica.fetch.wait.max.ms", Int32(0), 500,
        "Longest time in ms that a leader waits for those bytes; at most "
        "`replica.lag.time.max.ms`.")
    replica_fetch_backoff_ms: int = option("replica.fetch.backoff.ms", Int32(1), 1000,
        "Longest time in ms between two retries of a follower; the first ones come sooner.")
    replica_socket_timeout_ms: int = option("replica.socket.timeout.ms", Int32(1), 30_000,
        "Time in ms that a follower waits for a response; at least `replica.fetch.wait.max.ms`.")
    replica_receive_buffer_bytes: int = option(
        "replica.socket.receive.buffer.bytes", Int32(-1), 64 * 1024,
        "SO_RCVBUF of a follower's connections; -1 lets the system adapt it.")
    high_watermark_checkpoint_ms: int = option(
        "replica.high.watermark.checkpoint.interval.ms", Ms(1), 5000,
        "Time in ms between two writes of the high watermarks to `replication-offset-checkpoint`.")
    replication_quota_windows: int = option("replication.quota.window.num", Int32(1), 11,
        "Number of windows over which throttled replication is measured.")
    replication_quota_window_s: int = option("replication.quota.window.size.seconds", Int32(1), 1,
        "Length of each of these windows in seconds.")
    # fmt: on

    def _check_follower_times(self) -> None:
        wait_ms = self.replica_fetch_wait_ms
        if wait_ms > self.replica_socket_timeout_ms:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait_ms} is above replica.socket.timeout.ms="
                f"{self.replica_socket_timeout_ms}: every idle follower would lose its connection"
            )
        if wait_ms > self.replica_lag_ms:
            raise ConfigError(
                f"replica.fetch.wait.max.ms={wait_ms} is above replica.lag.time.max.ms="
                f"{self.replica_lag_ms}: idle replicas would fall out of sync"
            )
