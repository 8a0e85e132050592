"""Applies quotas to the requests of a connection and to their answers.

    request --> `meter` --(fetch above its quota)--> an empty answer
                  |
                  +--> handler --> `handled`: counted; the answer names the throttle time
                                       --> encoded --> `answered`: bytes of a fetch are counted

The short way (`zkbroker.broker.plain_ways`) does the same steps by `plain_meter`, except the first
one: a fetch above its quota takes the general way.

The answer is sent at once, whatever its version; then the connection is muted: its next request is
not read before the time is over, and is then answered normally (KIP-219).

Invariant: a throttled fetch gets an empty answer and is not counted; any other fetch is answered in
full, however large its first batch is, so that no quota stops a consumer for good. Requests between
brokers are exempt, unless the sender turns out not to be a broker. A produce with acks=0 has no
quota of request time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from zkbroker.broker.clients import ClientCounts
from zkbroker.broker.quotas.client_quotas import ClientLimits, ClientQuotas
from zkbroker.broker.quotas.table import QuotaKind
from zkbroker.network.server.muting import Mute
from zkbroker.network.transport import Part
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import FetchResponse
from zkbroker.protocol.plain import PlainFetch, PlainProduce

EXEMPT = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.VERIFY_TRANSACTION,
    }
)
_OF_REPLICAS = frozenset({ApiKey.FETCH, ApiKey.OFFSET_FOR_LEADER_EPOCH})
_LIMITED_SINCE = 3
"""The version of Fetch from which on a request limits its answer, but for the first batch."""


@dataclass(slots=True, eq=False)
class Meter:
    """One request of a client with quotas, from its arrival to its answer.

    Args:
        quotas: the rates of clients.
        limits: the quotas of this client.
        mute: of its connection.
        counts: of its client id.
        size: bytes of the request.
        fetch: whether it is a consumer's fetch.
        write: whether it is a produce.
        timed: whether its time is counted.
        exempt: whether brokers send each other such requests, which are then not counted.
    """

    quotas: ClientQuotas
    limits: ClientLimits
    mute: Mute
    counts: ClientCounts
    size: int
    fetch: bool
    write: bool
    timed: bool
    exempt: bool

    @property
    def throttle_ms(self) -> int:
        """For how long a fetch stays above its quota; 0 for one that is to be served."""
        if not self.fetch:
            return 0
        quotas, limits = self.quotas, self.limits
        return max(
            quotas.throttle_ms(limits, QuotaKind.FETCH),
            quotas.throttle_ms(limits, QuotaKind.REQUEST),
        )

    def refuse(self, request: Any, api_version: int) -> FetchResponse | None:
        """Return the empty answer to a fetch above its quota; limit any other fetch."""
        if not self.fetch:
            return None
        throttle_ms = self.throttle_ms
        if throttle_ms:
            self._mute(throttle_ms)
            # The empty answer is neither timed nor counted.
            self.timed = self.fetch = False
            return FetchResponse(throttle_time_ms=throttle_ms)
        request.min_bytes, request.max_bytes = self._bounds(
            api_version, request.min_bytes, request.max_bytes
        )
        return None

    def bounded(self, request: PlainProduce | PlainFetch) -> PlainProduce | PlainFetch:
        """Return a plain request; a fetch is limited to its quota."""
        if not self.fetch:
            return request
        fetch = cast("PlainFetch", request)
        bounds = self._bounds(fetch[1], fetch[6], fetch[7])
        return (*fetch[:6], *bounds, *fetch[8:])

    def _bounds(self, api_version: int, min_bytes: int, max_bytes: int) -> tuple[int, int]:
        if api_version >= _LIMITED_SINCE:
            allowance = self.quotas.allowance(self.limits, QuotaKind.FETCH)
            if allowance is not None:
                max_bytes = min(max_bytes, max(1, int(allowance)))
                # A fetch must not wait for more bytes than it may have.
                min_bytes = min(min_bytes, max_bytes)
        return min_bytes, max_bytes

    def handled(self, response: Any, used_ms: float) -> None:
        """Count a handled request, and set the throttle time in its answer, None without one."""
        throttle_ms = self.used(used_ms)
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms

    def used(self, used_ms: float) -> int:
        """Count a handled request by its time in the handler; return its throttle time in ms."""
        quotas, limits, throttle_ms = self.quotas, self.limits, 0
        if self.timed:
            throttle_ms = quotas.record(limits, QuotaKind.REQUEST, used_ms)
        if self.write:
            throttle_ms = max(throttle_ms, quotas.record(limits, QuotaKind.PRODUCE, self.size))
        # A served fetch gets its full answer: the next one is throttled.
        if not throttle_ms or self.fetch:
            return 0
        self._mute(throttle_ms)
        return throttle_ms

    def answered(self, parts: Sequence[Part]) -> None:
        """Count the bytes of an answer to a fetch."""
        if self.fetch:
            self.quotas.record(self.limits, QuotaKind.FETCH, sum(map(len, parts)))

    def _mute(self, throttle_ms: int) -> None:
        self.mute.seconds = throttle_ms / 1000
        self.counts.throttled += 1
        self.counts.throttled_ms += throttle_ms


class Throttling:
    """Makes a meter for each request of a client with quotas."""

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas

    def limits(self, known: ClientLimits | None, user: str, client: str | None) -> ClientLimits:
        """Return the quotas of a connection's user and client; `known` is its previous result."""
        quotas = self._quotas
        if known is not None and known.generation == quotas.generation and known.user == user:
            return known
        return quotas.limits(user, client or "")

    def meter(
        self, limits: ClientLimits, mute: Mute, counts: ClientCounts, request: Any, size: int
    ) -> Meter | None:
        """Return the meter of a request; None if no quota applies to it."""
        key = request.api_key
        if not limits.found:
            return None
        write = key is ApiKey.PRODUCE
        exempt = key in EXEMPT or (key in _OF_REPLICAS and request.replica_id >= 0)
        return Meter(
            *(self._quotas, limits, mute, counts, size),
            fetch=key is ApiKey.FETCH and not exempt,
            write=write,
            timed=not (write and request.acks == 0),
            exempt=exempt,
        )

    def plain_meter(
        self,
        limits: ClientLimits,
        mute: Mute,
        counts: ClientCounts,
        request: PlainProduce | PlainFetch,
        size: int,
    ) -> Meter | None:
        """Return the meter of a plain request; see `meter`."""
        if not limits.found:
            return None
        write = request[0] == ApiKey.PRODUCE
        exempt = not write and request[4] >= 0  # type: ignore[operator]
        return Meter(
            *(self._quotas, limits, mute, counts, size),
            fetch=not (write or exempt),
            write=write,
            timed=not (write and request[5] == 0),
            exempt=exempt,
        )


def throttled_produce(version: int, parts: Sequence[Part], throttle_ms: int) -> Sequence[Part]:
    """Set the throttle time in the encoded answer to a plain produce.

    Args:
        version: of the request; the field is the last of the answer in every version but the first.
        parts: a single one, without a throttle time yet.
        throttle_ms: the throttle time.
    """
    if version < 1:
        return parts
    (answer,) = parts
    assert isinstance(answer, bytes)
    return [answer[:-4] + throttle_ms.to_bytes(4, "big")]
