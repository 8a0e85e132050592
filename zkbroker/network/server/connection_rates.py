"""How many connections are accepted in a second: by the broker, by a listener, from an address.

    max.connection.creation.rate                        the next one is accepted later
    listener.name.X.max.connection.creation.rate        the same, for one listener
    /config/ips/[address]: connection_creation_rate     the next one is closed, a little later

Invariant: connections that come too fast for the broker or a listener wait where the system keeps
them (its backlog is bounded); those from an address that comes too often take the place of no other
one. Rates of `max_addresses` are kept; beyond that the one that came least recently begins again.

Source: KIP-612.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from zkbroker.sampled_rate import SampledRate

UNLIMITED = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreationLimits:
    """Connections a second.

    Args:
        broker: of all listeners together.
        listeners: of single listeners.
        exempt: the listener that brokers use among themselves, which the broker's limit does not
            hold up; empty where clients use it, too.
        addresses: of single addresses.
        other_addresses: of each other one.
        windows: samples over which rates are measured.
        window_ms: length of each.
        max_addresses: addresses whose rates are kept.
    """

    broker: int = UNLIMITED
    listeners: Mapping[str, int] = field(default_factory=dict)
    exempt: str = ""
    addresses: Mapping[str, float] = field(default_factory=dict)
    other_addresses: float = UNLIMITED
    windows: int = 11
    window_ms: int = 1000
    max_addresses: int = 10_000


class ConnectionRates:
    """The rates of connections at one server.

    Args:
        limits: what is allowed; may be replaced, rates go on.
        clock: monotonic seconds.
    """

    def __init__(self, limits: CreationLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._clock = clock
        self._broker = self._rate()
        self._listeners: dict[str, SampledRate] = {}
        self._addresses: OrderedDict[str, SampledRate] = OrderedDict()

    def accepted(self, listener: str) -> float:
        """Count a connection; return for how many seconds its listener is to accept no other."""
        limits, throttle_ms = self.limits, 0
        if limits.broker < UNLIMITED and listener != limits.exempt:
            throttle_ms = self._count(self._broker, limits.broker)
        of_listener = limits.listeners.get(listener, UNLIMITED)
        if of_listener < UNLIMITED:
            rate = self._listeners.setdefault(listener, self._rate())
            throttle_ms = max(throttle_ms, self._count(rate, of_listener))
        return throttle_ms / 1000

    def refused_s(self, address: str) -> float:
        """Count a connection from an address.

        Returns:
            0 where it may stay; for how many seconds the address comes too often.
        """
        limits = self.limits
        allowed = limits.addresses.get(address, limits.other_addresses)
        if allowed >= UNLIMITED:
            return 0.0
        addresses = self._addresses
        rate = addresses.get(address)
        if rate is None:
            while len(addresses) >= limits.max_addresses:
                addresses.popitem(last=False)
            rate = addresses[address] = self._rate()
        addresses.move_to_end(address)
        now_ms = self._now_ms()
        if rate.left(allowed, now_ms) < 1:
            # A refused connection is not counted, so that a client that retries is accepted at its
            # rate.
            return max(1, rate.throttle_ms(allowed, now_ms)) / 1000
        rate.record(1, allowed, now_ms)
        return 0.0

    def _count(self, rate: SampledRate, allowed: float) -> int:
        now_ms = self._now_ms()
        rate.record(1, allowed, now_ms)
        return rate.throttle_ms(allowed, now_ms)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _rate(self) -> SampledRate:
        return SampledRate(self.limits.windows, self.limits.window_ms)
