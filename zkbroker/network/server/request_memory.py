"""Memory of large requests that are being received, shared by all connections of a server.

    charged    the bytes of a request that have arrived, never its announced length
    over       reading stops while the limit, or half of it for one address, is reached
    oldest     the oldest incomplete request is always read on, so that one can always finish

Invariant: at most the limit, one whole request, and one read on each connection are held. A request
waits only while other requests hold the memory; the server cuts requests that arrive too slowly
while others wait.
"""

import time
from dataclasses import dataclass, field

import gevent.event

_SHARES = 2


@dataclass(eq=False, slots=True)
class Account:
    """The memory of one request from an address, and the rate at which the request arrives."""

    address: str
    held: int = 0
    """Bytes of the request that have arrived."""
    _measured_at: float = field(default_factory=time.monotonic)
    _measured_from: int = 0

    def measure_from(self, now: float) -> None:
        """Begin another period over which the rate is measured."""
        self._measured_at, self._measured_from = now, self.held

    def too_slow(self, now: float, bytes_per_s: int, window_s: float) -> bool:
        """Whether the request has lately been slower than a rate.

        Args:
            now: the monotonic clock.
            bytes_per_s: the rate.
            window_s: the shortest period over which it is measured.
        """
        elapsed_s = now - self._measured_at
        if elapsed_s < window_s:
            return False
        slow = self.held - self._measured_from < bytes_per_s * elapsed_s
        self.measure_from(now)
        return slow


@dataclass(slots=True)
class _Address:
    """The memory that the requests of one address hold."""

    accounts: int = 0
    held: int = 0
    incoming: dict[Account, None] = field(default_factory=dict)


class RequestMemory:
    """Counts the bytes of large requests against a limit.

    Args:
        limit_bytes: how many may be held at once; -1 for no limit.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._incoming: dict[Account, None] = {}
        self._of_address: dict[str, _Address] = {}
        self._waiting: dict[Account, gevent.event.Event] = {}
        self._share = limit_bytes // _SHARES
        self._counted = 0
        self.held = 0
        """Bytes that are in use now."""

    @property
    def short(self) -> bool:
        """Whether a request waits."""
        return bool(self._waiting)

    def open(self, address: str) -> Account:
        """Begin to count a request that comes from an address."""
        own = self._of_address.setdefault(address, _Address())
        account = Account(address)
        own.incoming[account] = None
        own.accounts += 1
        self._incoming[account] = None
        return account

    def charge(self, account: Account, size: int) -> bool:
        """Count bytes that have arrived; wait until more may be read. Return whether it waited."""
        self._count(account, size)
        if self._may_read(account):
            return False
        event = self._waiting[account] = gevent.event.Event()
        try:
            event.wait()
        finally:
            self._waiting.pop(account, None)
        return True

    def complete(self, account: Account) -> None:
        """Note that a request is complete; its memory is held until `close`."""
        self._incoming.pop(account, None)
        self._of_address[account.address].incoming.pop(account, None)
        self._wake()

    def close(self, account: Account) -> None:
        """Give back the memory of a request."""
        self._incoming.pop(account, None)
        own = self._of_address[account.address]
        own.incoming.pop(account, None)
        own.accounts -= 1
        self._count(account, -account.held)
        if not own.accounts:
            del self._of_address[account.address]
        self._wake()

    def _count(self, account: Account, size: int) -> None:
        own = self._of_address[account.address]
        # The bytes of an address above its share do not count against other addresses.
        self._counted -= min(own.held, self._share)
        account.held += size
        own.held += size
        self.held += size
        self._counted += min(own.held, self._share)

    def _may_read(self, account: Account) -> bool:
        if self._limit < 0 or account is next(iter(self._incoming), None):
            return True
        if self._counted >= self._limit:
            return False
        own = self._of_address[account.address]
        return own.held <= self._share or account is next(iter(own.incoming), None)

    def _wake(self) -> None:
        for account, event in self._waiting.items():
            if self._may_read(account):
                event.set()
