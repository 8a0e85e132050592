"""Settings of fetches, for consumers and tools of every kind; each builds them from its own."""

from dataclasses import dataclass

from zkbroker.config.shared_options import FAIL

LIMIT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Settings of fetches; sizes in bytes, times in milliseconds.

    Args:
        partition_bytes: the fetch size: bytes asked of one partition in one fetch.
        limit_bytes: how far the fetch size is doubled for a message that does not fit.
        response_bytes: most bytes of one response over all its partitions.
        min_bytes: a fetch is answered once it finds so many bytes, or after `max_wait_ms`.
        max_wait_ms: how long a broker holds a fetch that finds fewer bytes.
        timeout_ms: how long to wait for an answer, beyond `max_wait_ms`.
        read_committed: leave out aborted transactions, and stop before open ones.
        auto_offset_reset: where to begin without an offset: `SMALLEST`, `LARGEST`, or `FAIL`.
        leader_backoff_ms: pause before leaders are looked for again.
        fetchers: connections to each broker.
        queued_chunks: most fetched chunks that wait for one reader.
        receive_buffer_bytes: of connections that the fetcher opens itself; -1 for the system's.
    """

    partition_bytes: int = 1024 * 1024
    limit_bytes: int = LIMIT_BYTES
    response_bytes: int = 32 * 1024 * 1024
    min_bytes: int = 1
    max_wait_ms: int = 100
    timeout_ms: int = 30_000
    read_committed: bool = False
    auto_offset_reset: str = FAIL
    leader_backoff_ms: int = 200
    fetchers: int = 1
    queued_chunks: int = 2
    receive_buffer_bytes: int = -1
