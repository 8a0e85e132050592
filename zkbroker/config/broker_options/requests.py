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
        "Memory in bytes for messages that are converted for older readers. The more of it slow "
        "readers occupy, the smaller is the next response. A response may always hold one batch; "
        "batches that expand beyond 4 MiB are converted one at a time.")
    queued_max_requests: int = option("queued.max.requests", Int32(1), 500,
        "Requests that are handled at the same time; others wait in their connections.")
    queued_max_request_bytes: int = option("queued.max.request.bytes", Int(-1), 1024 * 1024 * 1024,
        "Memory in bytes of all requests above 64 KiB, from their first byte to their response. "
        "Beyond it, and beyond half of it for one address, the broker reads no further. -1 is "
        "without limit, as in genuine brokers.")
    min_request_bytes_per_second: int = option(
        "socket.request.min.bytes.per.second", Int32(0), 16 * 1024,
        "Bytes a second that a request above 64 KiB must bring while others wait for memory; the "
        "connection of a slower one is closed.")
    max_request_bytes: int = option(
        "socket.request.max.bytes max.socket.request.bytes", Int32(1), 100 * 1024**2,
        "Largest request in bytes; the connection of a larger one is closed.")
    max_request_items: int = option("request.max.items", Int32(1), 200_000,
        "Topics, partitions and other array items that one request may hold in all; the connection "
        "of a request with more is closed.")
    max_request_records: int = option("request.max.compressed.records", Int32(1), 1_000_000,
        "Records that the compressed batches of one produce request may hold in all; batches "
        "beyond it are refused with error 10.")
    max_decompressed_bytes: int = option("request.max.decompressed.bytes", Int(1), 128 * 1024**2,
        "Bytes that the compressed batches of one produce request may expand to in all; batches "
        "beyond it are refused with error 10.")
    send_buffer_bytes: int = option("socket.send.buffer.bytes socket.send.buffer", Int32(-1), -1,
        "SO_SNDBUF of connections; -1 lets the system adapt it, which is faster than any fixed "
        "size (102400 was the default of genuine brokers).")
    receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes socket.receive.buffer", Int32(-1), -1,
        "SO_RCVBUF of connections; -1 lets the system adapt it.")
    busy_poll_us: int = option("socket.busy.poll.us", Int32(0, 1000), 50,
        "Microseconds for which the broker looks for the next request of a plain connection whose "
        "last requests came at once, before it waits for it: such clients are answered twice as "
        "fast. It ends as soon as there is other work. 0 never looks: a broker that shares its "
        "processors uses less of them.")
    max_connections: int = option("max.connections", Int32(1), _INT32_MAX,
        "Connections that may be open at the same time; others are refused.")
    max_connection_rate: int = option("max.connection.creation.rate", Int32(1), _INT32_MAX,
        "Connections a second that are accepted; further ones wait in the system's backlog. "
        "`listener.name.NAME.max.connection.creation.rate` is the same for one listener.")
    max_connections_per_ip: int = option("max.connections.per.ip", Int32(0), _INT32_MAX,
        "Connections from one address that may be open at the same time.")
    max_connections_overrides: Mapping[str, int] = option(
        "max.connections.per.ip.overrides", StrMap(), {},
        "`address:number` pairs that replace `max.connections.per.ip`.")
    max_idle_ms: int = option("connections.max.idle.ms", Ms(1), 600_000,
        "Time in ms after which an idle connection is closed.")
    failed_login_delay_ms: int = option(
        "connection.failed.authentication.delay.ms", Int32(0, 60_000), 100,
        "How long a failed login waits for its answer and its end, in ms: it slows guessing.")
    login_timeout_ms: int = option("connection.login.timeout.ms", Ms(1), 60_000,
        "Time in ms within which a connection to a SASL_ listener must have logged in, its TLS "
        "handshake included; it is closed then.")
    max_frame_ms: int = option("socket.request.timeout.ms", Ms(1), 30_000,
        "Time in ms that an incomplete request may wait for its next byte.")
    controlled_shutdown_ms: int = option("shutdown.timeout.ms", Ms(1), 30_000,
        "Time in ms that a broker takes, when it stops, to answer requests in flight.")
    fetch_session_slots: int = option("max.incremental.fetch.session.cache.slots", Int32(0), 1000,
        "Fetch sessions of followers that a broker keeps; a new one replaces one that was not used "
        "for two minutes, or a smaller one that is older.")
    fetch_session_bytes: int = option(
        "max.incremental.fetch.session.cache.bytes", Int(1), 32 * 1024 * 1024,
        "Memory in bytes for all fetch sessions of followers, some 400 for a partition; a follower "
        "whose session does not fit names all of its partitions in each fetch.")
    # fmt: on
