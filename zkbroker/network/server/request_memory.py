"""Memory for large requests that are on their way in, shared by all connections of a server.

    charged    what has arrived of a request, never what its length announces
    over       reading stops while the limit, or the half of it for one address, is reached
    oldest     the oldest request that is not whole always goes on, so that one is always finished

Invariant: what is held is at most the limit and one request, and on each connection what one read
brings. A request waits for memory only while others really hold it; the server cuts those that come
too slowly while others wait.
"""

import gevent.event

_SHARES = 2


class RequestMemory:
    """Counts the bytes of large requests against a limit.

    Args:
        limit_bytes: how many may be held at once; -1 for any number.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._incoming: dict[Account, None] = {}
        self._of_address: dict[str, _Address] = {}
        self._waiting: dict[Account, gevent.event.Event] = {}
        self._share = limit_bytes // _SHARES
        self._counted = 0
        self.held = 0
        """Bytes that are held now."""

    @property
    def short(self) -> bool:
        """Whether a request waits."""
        return bool(self._waiting)

    def open(self, address: str) -> "Account":
        """Begin to count a request that comes from an address."""
        own = self._of_address.setdefault(address, _Address())
        account = Account(self, address)
        own.incoming[account] = None
        own.accounts += 1
        self._incoming[account] = None
        return account

    def charge(self, account: "Account", size: int) -> bool:
        """Count bytes that have arrived, and wait until more may; returns whether it waited."""
        self._count(account, size)
        if self._may_read(account):
            return False
        event = self._waiting[account] = gevent.event.Event()
        try:
            event.wait()
        finally:
            self._waiting.pop(account, None)
        return True

    def complete(self, account: "Account") -> None:
        """Note that a request is whole; its memory is held until `close`."""
        self._incoming.pop(account, None)
        self._of_address[account.address].incoming.pop(account, None)
        self._wake()

    def close(self, account: "Account") -> None:
        """Give back the memory of a request."""
        self._incoming.pop(account, None)
        own = self._of_address[account.address]
        own.incoming.pop(account, None)
        own.accounts -= 1
        self._count(account, -account.held)
        if not own.accounts:
            del self._of_address[account.address]
        self._wake()

    def _count(self, account: "Account", size: int) -> None:
        own = self._of_address[account.address]
        # What first reads bring beyond an address's share is not held against the others.
        self._counted -= min(own.held, self._share)
        account.held += size
        own.held += size
        self.held += size
        self._counted += min(own.held, self._share)

    def _may_read(self, account: "Account") -> bool:
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


class _Address:
    """What is held for one address."""

    __slots__ = ("accounts", "held", "incoming")

    def __init__(self) -> None:
        self.held = 0
        self.accounts = 0
        self.incoming: dict[Account, None] = {}


class Account:
    """The memory of one request."""

    __slots__ = ("_memory", "address", "held")

    def __init__(self, memory: RequestMemory, address: str) -> None:
        self._memory = memory
        self.address = address
        self.held = 0
        """Bytes of it that have arrived."""

    def charge(self, size: int) -> bool:
        """Count bytes that have arrived, and wait until more may; returns whether it waited."""
        return self._memory.charge(self, size)

    def complete(self) -> None:
        """Note that the request is whole."""
        self._memory.complete(self)

    def close(self) -> None:
        """Give back its memory."""
        self._memory.close(self)
