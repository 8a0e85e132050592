"""The recent rates of clients with quotas, at this broker.

Invariant: all connections that share a quota share one rate. A rate is kept while its client is
among the last `max_keys` that were active; one that is forgotten, or whose quota changes, begins
again, as after silence.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from zkbroker.broker.quotas.table import Key, QuotaKind, QuotaTable
from zkbroker.sampled_rate import SampledRate


@dataclass(frozen=True, slots=True)
class QuotaWindows:
    """Over what rates are measured.

    Args:
        number: samples that are kept (`quota.window.num`).
        size_ms: length of each (`quota.window.size.seconds`).
        max_keys: rates that are kept (`quota.clients.max`).
    """

    number: int = 11
    size_ms: int = 1000
    max_keys: int = 10_000


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The quotas of one connection's user and client.

    Args:
        generation: of the quotas that they were found in; later ones may differ.
        user: the name of the principal.
        client: its client id, "" without one.
        found: kind → what shares it, and the quota.
    """

    generation: int
    user: str
    client: str
    found: dict[QuotaKind, tuple[Key, float]]


class ClientQuotas:
    """The rates of all clients with quotas.

    Args:
        clock_ms: a monotonic clock.
        windows: over what rates are measured.
    """

    def __init__(self, clock_ms: Callable[[], int], windows: QuotaWindows | None = None) -> None:
        self._clock_ms = clock_ms
        self.windows = windows or QuotaWindows()
        self._table = QuotaTable()
        self.generation = 0
        """How often the quotas changed."""
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
        """Take quotas, and return whether any differs; the rates of the others go on."""
        if table == self._table:
            return False
        self._table = table
        self.generation += 1
        return True

    def limits(self, user: str, client: str) -> ClientLimits:
        """Return the quotas of a client of a user."""
        table = self._table
        found = {kind: each for kind in QuotaKind if (each := table.find(kind, user, client))}
        return ClientLimits(self.generation, user, client, found)

    def record(self, limits: ClientLimits, kind: QuotaKind, amount: float) -> int:
        """Count what a client did, and return for how many ms it is to be throttled.

        Args:
            limits: its quotas; without one of this kind nothing is counted.
            kind: of what it did.
            amount: bytes, or milliseconds of a thread.
        """
        found = limits.found.get(kind)
        if found is None:
            return 0
        now_ms, quota = self._clock_ms(), _per_second(kind, found[1])
        rate = self._rate(kind, found[0], quota)
        rate.record(amount, quota, now_ms)
        return self._bounded(kind, rate.throttle_ms(quota, now_ms))

    def throttle_ms(self, limits: ClientLimits, kind: QuotaKind) -> int:
        """Return for how many ms a client is above its quota now."""
        found = limits.found.get(kind)
        if found is None:
            return 0
        quota = _per_second(kind, found[1])
        rate = self._rate(kind, found[0], quota)
        return self._bounded(kind, rate.throttle_ms(quota, self._clock_ms()))

    def allowance(self, limits: ClientLimits, kind: QuotaKind) -> float | None:
        """Return how much a client may do at once; None for any amount."""
        found = limits.found.get(kind)
        if found is None:
            return None
        quota = _per_second(kind, found[1])
        return self._rate(kind, found[0], quota).allowance(quota, self._clock_ms())

    def _bounded(self, kind: QuotaKind, throttle_ms: int) -> int:
        # Of request time one sample at most, as genuine brokers do: heartbeats are requests too.
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


def _per_second(kind: QuotaKind, quota: float) -> float:
    """Return a quota in the unit of what is recorded, per second."""
    return quota * 10 if kind is QuotaKind.REQUEST else quota
