"""Limits of connections, requests and responses.

Invariant: one of these bounds whatever a client sends or asks for.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.config.schema import Int, Int32, Ms, StrMap, option

_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Limits of connections, requests and responses."""

    # fmt: off
    fetch_conversion_max_bytes: int = option("fetch.conversion.max.bytes", Int(1), 64 * 1024 * 1024,
        "Memory in bytes for messages that are converted for older readers. The next response gets "
        "smaller as slow readers occupy more of it. A response may always hold one batch; "
        "batches that expand beyond 4 MiB are converted one at a time.")
    queued_max_requests: int = option("queued.max.requests", Int32(1), 500,
        "Requests that are handled at the same time; others wait in their connections.")
    queued_max_request_bytes: int = option("queued.max.request.bytes", Int(-1), 1024 * 1024 * 1024,
        "Memory in bytes of all requests above 64 KiB, from their first byte to their response. "
        "Beyond it, and beyond half of it for one address, the broker stops reading them. -1 is "
        "without limit, as in genuine brokers.")
    min_request_bytes_per_second: int = option(
        "socket.request.min.bytes.per.second", Int32(0), 16 * 1024,
        "Bytes a second at which a request above 64 KiB must arrive while others wait for memory; "
        "the connection of a slower one is closed.")
    max_request_bytes: int = option(
        "socket.request.max.bytes max.socket.request.bytes", Int32(1), 100 * 1024**2,
        "Largest request in bytes; the connection of a larger one is closed.")
    max_request_items: int = option("request.max.items", Int32(1), 200_000,
        "Most topics, partitions and other array items in one request, in all; the connection of a "
        "request with more is closed.")
    max_request_records: int = option("request.max.compressed.records", Int32(1), 1_000_000,
        "Most records in the compressed batches of one produce request, in all; batches beyond it "
        "are refused with error 10.")
    max_decompressed_bytes: int = option("request.max.decompressed.bytes", Int(1), 128 * 1024**2,
        "Most bytes that the compressed batches of one produce request expand to, in all; batches "
        "beyond it are refused with error 10.")
    send_buffer_bytes: int = option("socket.send.buffer.bytes socket.send.buffer", Int32(-1), -1,
        "SO_SNDBUF of connections; -1 lets the system adapt it, which is faster than any fixed "
        "size (102400 was the default of genuine brokers).")
    receive_buffer_bytes: int = option(
        "socket.receive.buffer.bytes socket.receive.buffer", Int32(-1), -1,
        "SO_RCVBUF of connections; -1 lets the system adapt it.")
    busy_poll_us: int = option("socket.busy.poll.us", Int32(0, 1000), 50,
        "Microseconds for which the broker polls a plain connection for the next request, if the "
        "last requests followed at once, before it waits: such clients are answered twice as fast. "
        "Other work ends the polling. 0 never polls, which uses less processor time on a shared "
        "machine.")
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
        "Time in ms before a failed login is answered and its connection closed; slows guessing.")
    login_timeout_ms: int = option("connection.login.timeout.ms", Ms(1), 60_000,
        "Time in ms after which a connection to a SASL_ listener that has not logged in is closed, "
        "the TLS handshake included.")
    max_frame_ms: int = option("socket.request.timeout.ms", Ms(1), 30_000,
        "Time in ms that an incomplete request may wait for its next byte.")
    controlled_shutdown_ms: int = option("shutdown.timeout.ms", Ms(1), 30_000,
        "Time in ms that a stopping broker has to answer requests in flight.")
    fetch_session_slots: int = option("max.incremental.fetch.session.cache.slots", Int32(0), 1000,
        "Most fetch sessions of followers that a broker keeps; a new one replaces one that was not "
        "used for two minutes, or a smaller one that is older.")
    fetch_session_bytes: int = option(
        "max.incremental.fetch.session.cache.bytes", Int(1), 32 * 1024 * 1024,
        "Memory in bytes for all fetch sessions of followers, about 400 for each partition; a "
        "follower whose session does not fit names all of its partitions in each fetch.")
    # fmt: on
