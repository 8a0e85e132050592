"""The recent rates of clients with quotas, at this broker.

Invariant: all connections that share a quota share one rate. The rates of the `max_keys` most
recently active clients are kept; a forgotten rate, or one whose quota changes, begins again, as
after silence.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from zkbroker.broker.quotas.table import Key, QuotaKind, QuotaTable
from zkbroker.sampled_rate import SampledRate


@dataclass(frozen=True, slots=True)
class QuotaWindows:
    """The time windows over which rates are measured.

    Args:
        number: how many samples are kept (`quota.window.num`).
        size_ms: length of a sample (`quota.window.size.seconds`).
        max_keys: how many rates are kept (`quota.clients.max`).
    """

    number: int = 11
    size_ms: int = 1000
    max_keys: int = 10_000


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The quotas of one connection's user and client.

    Args:
        generation: number of the quotas' version; a later version may differ.
        user: the name of the principal.
        client: its client id, "" without one.
        found: kind → the key of the shared rate, and the quota in the recorded unit per second.
    """

    generation: int
    user: str
    client: str
    found: dict[QuotaKind, tuple[Key, float]]


class ClientQuotas:
    """The rates of all clients with quotas, by a monotonic clock."""

    def __init__(self, clock_ms: Callable[[], int], windows: QuotaWindows | None = None) -> None:
        self._clock_ms = clock_ms
        self.windows = windows or QuotaWindows()
        self._table = QuotaTable()
        self.generation = 0
        """How often the quotas have changed."""
        self._rates: OrderedDict[tuple[QuotaKind, Key], tuple[float, SampledRate]] = OrderedDict()

    @property
    def rates(self) -> int:
        """How many rates are kept."""
        return len(self._rates)

    @property
    def empty(self) -> bool:
        """Whether no quota is set."""
        return self._table.empty

    def take(self, table: QuotaTable) -> bool:
        """Replace the quotas, and return whether any differs; rates of unchanged ones go on."""
        if table == self._table:
            return False
        self._table = table
        self.generation += 1
        return True

    def limits(self, user: str, client: str) -> ClientLimits:
        """Return the quotas of a client of a user."""
        found: dict[QuotaKind, tuple[Key, float]] = {}
        for kind in QuotaKind:
            each = self._table.find(kind, user, client)
            if each is not None:
                # A percentage of a second is 10 ms.
                found[kind] = each[0], each[1] * 10 if kind is QuotaKind.REQUEST else each[1]
        return ClientLimits(self.generation, user, client, found)

    def record(self, limits: ClientLimits, kind: QuotaKind, amount: float) -> int:
        """Count a client's usage, and return for how many ms to throttle the client.

        Args:
            limits: its quotas; without one of this kind nothing is counted.
            kind: of the usage.
            amount: bytes, or milliseconds of a thread.
        """
        found = self._found(limits, kind)
        if found is None:
            return 0
        key, quota = found
        now_ms, rate = self._clock_ms(), self._rate(kind, key, quota)
        rate.record(amount, quota, now_ms)
        return self._bounded(kind, rate.throttle_ms(quota, now_ms))

    def throttle_ms(self, limits: ClientLimits, kind: QuotaKind) -> int:
        """Return for how many ms a client stays above its quota."""
        found = self._found(limits, kind)
        if found is None:
            return 0
        key, quota = found
        rate = self._rate(kind, key, quota)
        return self._bounded(kind, rate.throttle_ms(quota, self._clock_ms()))

    def allowance(self, limits: ClientLimits, kind: QuotaKind) -> float | None:
        """Return how much a client may do at once; None for any amount."""
        found = self._found(limits, kind)
        if found is None:
            return None
        key, quota = found
        return self._rate(kind, key, quota).allowance(quota, self._clock_ms())

    def _found(self, limits: ClientLimits, kind: QuotaKind) -> tuple[Key, float] | None:
        if limits.generation != self.generation:
            # The quotas changed while the request was handled: the old ones count no more.
            limits = self.limits(limits.user, limits.client)
        return limits.found.get(kind)

    def _bounded(self, kind: QuotaKind, throttle_ms: int) -> int:
        # For request time at most one sample, as genuine brokers do: heartbeats are also requests.
        return min(throttle_ms, self.windows.size_ms) if kind is QuotaKind.REQUEST else throttle_ms

    def _rate(self, kind: QuotaKind, key: Key, quota: float) -> SampledRate:
        rates, name = self._rates, (kind, key)
        kept = rates.get(name)
        if kept is not None and kept[0] == quota:
            rates.move_to_end(name)
            return kept[1]
        windows = self.windows
        while kept is None and len(rates) >= windows.max_keys:
            rates.popitem(last=False)
        rate = SampledRate(windows.number, windows.size_ms)
        rates[name] = quota, rate
        return rate
