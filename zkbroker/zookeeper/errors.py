"""What can go wrong with ZooKeeper, in the library's own terms.

Invariant: no exception of the ZooKeeper client leaves the registry; callers catch `RegistryError`
or one of these.
"""

from zkbroker.errors import RegistryError

__all__ = [
    "BadVersion",
    "BrokerIdInUse",
    "ClaimBlocked",
    "ConnectionLost",
    "LoginRefused",
    "NoNode",
    "NodeExists",
    "NotEmpty",
    "NotPermitted",
    "RegistryError",
    "SessionLost",
    "TransactionFailed",
]


class NoNode(RegistryError):
    """The node, or the parent to create it under, does not exist."""


class NodeExists(RegistryError):
    """The node exists already."""


class BadVersion(RegistryError):
    """The node was changed by another client since it was read."""


class NotEmpty(RegistryError):
    """The node has children and cannot be deleted."""


class ConnectionLost(RegistryError):
    """No answer from ZooKeeper in time; whether a change took place is unknown."""


class SessionLost(RegistryError):
    """The session is over: every ephemeral node made in it is gone or about to go."""


class NotPermitted(RegistryError):
    """The rights on a node do not allow this to the session's login."""


class LoginRefused(RegistryError):
    """ZooKeeper refused the login, or wants one where there is none."""


class TransactionFailed(RegistryError):
    """A transaction did nothing; `index` and `cause` say which operation failed, and why."""

    def __init__(self, index: int, path: str, cause: RegistryError) -> None:
        super().__init__(f"transaction refused at operation {index} ({path}): {cause}")
        self.index = index
        self.path = path
        self.cause = cause


class BrokerIdInUse(RegistryError):
    """Another live broker is registered under this id."""


class ClaimBlocked(RegistryError):
    """A partition to be claimed is owned by another member; nothing was claimed.

    `path` is the owner node that is in the way and `owner` what it holds.
    """

    def __init__(self, path: str, owner: str) -> None:
        super().__init__(f"{path} is owned by {owner or 'an unknown consumer'}")
        self.path = path
        self.owner = owner
