"""What quotas do to the requests of a connection, and to their answers.

    request --> `meter` --(fetch above its quota)--> an empty answer
                  |
                  +--> handler --> `handled`: counted; the answer says for how long it throttles
                                       --> encoded --> `answered`: bytes of a fetch are counted

The answer leaves at once, whatever its version is; then the connection is muted: its next request
is not read before the time is over, and is answered in its turn (KIP-219).

Invariant: a throttled fetch is answered empty and is not counted; one that is not throttled is
answered in full, however large its first batch is, so that no quota stops a consumer for good.
What brokers send each other is exempt, unless its sender is found to be no broker. A produce with
acks=0 has no quota of request time.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from zkbroker.broker.quotas.client_quotas import ClientLimits, ClientQuotas
from zkbroker.broker.quotas.table import QuotaKind
from zkbroker.network.server.muting import Mute
from zkbroker.network.transport import Part
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import FetchRequest, FetchResponse

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
"""The version of Fetch that has a limit of its own, and a first batch above it."""


class Muted(Protocol):
    """A connection that can be muted; see `Session`."""

    mute: Mute


class Counted(Protocol):
    """Where the throttling of a client is counted; see `ClientCounts`."""

    throttled: int
    throttled_ms: int


class Meter:
    """One request of a client with quotas, from its arrival to its answer."""

    __slots__ = (
        "_counts",
        "_fetch",
        "_limits",
        "_quotas",
        "_session",
        "_size",
        "_timed",
        "_write",
        "exempt",
    )

    def __init__(
        self,
        quotas: ClientQuotas,
        limits: ClientLimits,
        session: Muted,
        counts: Counted,
        request: Any,
        size: int,
        *,
        exempt: bool = False,
    ) -> None:
        key = request.api_key
        self.exempt = exempt
        """Whether brokers send such requests to each other: it is not counted then."""
        self._quotas = quotas
        self._limits = limits
        self._session = session
        self._counts = counts
        self._size = size
        self._fetch = key is ApiKey.FETCH and not exempt
        self._write = key is ApiKey.PRODUCE
        self._timed = not (self._write and request.acks == 0)

    def refuse(self, request: Any, api_version: int) -> FetchResponse | None:
        """Return the empty answer to a fetch above its quota; bound any other fetch."""
        if not self._fetch:
            return None
        quotas, limits = self._quotas, self._limits
        throttle_ms = max(
            quotas.throttle_ms(limits, QuotaKind.FETCH),
            quotas.throttle_ms(limits, QuotaKind.REQUEST),
        )
        if throttle_ms:
            self._mute(throttle_ms)
            # Its answer is neither timed nor counted.
            self._timed = self._fetch = False
            return FetchResponse(throttle_time_ms=throttle_ms)
        if api_version >= _LIMITED_SINCE:
            self._bound(request)
        return None

    def _bound(self, request: FetchRequest) -> None:
        allowance = self._quotas.allowance(self._limits, QuotaKind.FETCH)
        if allowance is not None:
            request.max_bytes = min(request.max_bytes, max(1, int(allowance)))
            # A fetch that waits for more than it may have would wait in vain.
            request.min_bytes = min(request.min_bytes, request.max_bytes)

    def handled(self, response: Any, used_ms: float) -> None:
        """Count a request that was handled, and have its answer name the throttle time.

        Args:
            response: to the request; None without one.
            used_ms: how long it was worked on, in milliseconds.
        """
        quotas, limits, throttle_ms = self._quotas, self._limits, 0
        if self._timed:
            throttle_ms = quotas.record(limits, QuotaKind.REQUEST, used_ms)
        if self._write:
            throttle_ms = max(throttle_ms, quotas.record(limits, QuotaKind.PRODUCE, self._size))
        # A fetch that was served is full: the next one is throttled.
        if throttle_ms and not self._fetch:
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = throttle_ms
            self._mute(throttle_ms)

    def answered(self, parts: Sequence[Part]) -> None:
        """Count the bytes of an answer to a fetch."""
        if self._fetch:
            self._quotas.record(self._limits, QuotaKind.FETCH, sum(map(len, parts)))

    def _mute(self, throttle_ms: int) -> None:
        self._session.mute.seconds = throttle_ms / 1000
        self._counts.throttled += 1
        self._counts.throttled_ms += throttle_ms


class Throttling:
    """Makes a meter for each request of a client with quotas.

    Args:
        quotas: of all clients.
    """

    def __init__(self, quotas: ClientQuotas) -> None:
        self._quotas = quotas

    def limits(self, known: ClientLimits | None, user: str, client: str | None) -> ClientLimits:
        """Return the quotas of a connection's user and client.

        Args:
            known: what it returned for the connection before.
            user: the name of its principal.
            client: its client id.
        """
        quotas = self._quotas
        if known is not None and known.generation == quotas.generation and known.user == user:
            return known
        return quotas.limits(user, client or "")

    def meter(
        self, limits: ClientLimits, session: Muted, counts: Counted, request: Any, size: int
    ) -> Meter | None:
        """Return what meters a request; None for one that no quota concerns.

        Args:
            limits: of its connection.
            session: its connection.
            counts: of its client.
            request: decoded.
            size: bytes of its frame.
        """
        key = request.api_key
        if not limits.found:
            return None
        exempt = key in EXEMPT or (key in _OF_REPLICAS and request.replica_id >= 0)
        return Meter(self._quotas, limits, session, counts, request, size, exempt=exempt)
