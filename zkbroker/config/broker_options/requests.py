"""How much connections and requests may take of a broker.

Invariant: whatever a client sends or asks for is bounded by one of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.config.schema import Int, Int32, Ms, StrMap, option

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Bounds of connections, requests and answers."""

    # fmt: off
    fetch_conversion_max_bytes: int = option("fetch.conversion.max.bytes", Int(1), 64 * 1024 * 1024,
        "Memory in bytes for messages converted for older readers; the more of it waits for "
        "readers that are slow, the less the next answer holds. An answer may always hold one "
        "batch; batches that expand beyond 4 MiB are converted one at a time.")
    queued_max_requests: int = option("queued.max.requests", Int32(1), 500,
        "Requests worked on at once; further ones wait in their connections.")
    queued_max_request_bytes: int = option("queued.max.request.bytes", Int(-1), 1024 * 1024 * 1024,
        "Memory in bytes of all requests above 64 KiB that come in or are worked on, counted as "
        "they arrive; beyond it, and beyond half of it for one address, further bytes wait. -1 is "
        "any number, the genuine default.")
    min_request_bytes_per_second: int = option(
        "socket.request.min.bytes.per.second", Int32(0), 16 * 1024,
        "What a request above 64 KiB must bring per second while others wait for memory; a slower "
        "one closes its connection.")
    max_request_bytes: int = option(
        "socket.request.max.bytes max.socket.request.bytes", Int32(1), 100 * 1024**2,
        "Largest request in bytes; a longer one closes its connection.")
    max_request_items: int = option("request.max.items", Int32(1), 200_000,
        "Topics, partitions and other array items that one request may hold, all together; a "
        "request with more closes its connection.")
    max_request_records: int = option("request.max.compressed.records", Int32(1), 1_000_000,
        "Records that the compressed batches of one produce request may hold, all together; what "
        "goes beyond is refused with error 10.")
    max_decompressed_bytes: int = option("request.max.decompressed.bytes", Int(1), 128 * 1024**2,
        "Bytes that the compressed batches of one produce request may expand to, all together; "
        "what goes beyond is refused with error 10.")
    send_buffer_bytes: int = option("socket.send.buffer.bytes socket.send.buffer", Int32(-1), -1,
        "SO_SNDBUF of connections; -1 lets the system adapt it, which is faster than any fixed "
        "size (102400 was the default of genuine brokers).")
    receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes socket.receive.buffer", Int32(-1), -1,
        "SO_RCVBUF of connections; -1 lets the system adapt it.")
    max_connections: int = option("max.connections", Int32(1), _INT32_MAX,
        "Connections open at once; further ones are closed as they come.")
    max_connections_per_ip: int = option("max.connections.per.ip", Int32(0), _INT32_MAX,
        "Connections open at once from one address.")
    max_connections_overrides: Mapping[str, int] = option(
        "max.connections.per.ip.overrides", StrMap(), {},
        "`address:number` pairs that replace `max.connections.per.ip`.")
    max_idle_ms: int = option("connections.max.idle.ms", Ms(1), 600_000,
        "Time in ms after which a connection on which nothing moves is closed.")
    max_frame_ms: int = option("socket.request.timeout.ms", Ms(1), 30_000,
        "Time in ms that part of a request may wait for its next byte.")
    controlled_shutdown_ms: int = option("shutdown.timeout.ms", Ms(1), 30_000,
        "Time in ms that requests in flight get to be answered when the broker stops.")
    fetch_session_slots: int = option("max.incremental.fetch.session.cache.slots", Int32(0), 1000,
        "Fetch sessions of followers that a broker keeps; one that was not used for two minutes, "
        "or a smaller one that is older, makes room for another.")
    fetch_session_bytes: int = option(
        "max.incremental.fetch.session.cache.bytes", Int(1), 32 * 1024 * 1024,
        "Memory in bytes for all fetch sessions of followers, some 400 for a partition; a follower "
        "whose session does not fit names all of its partitions in each fetch.")
    # fmt: on
