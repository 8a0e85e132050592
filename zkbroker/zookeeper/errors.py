"""The exceptions of ZooKeeper operations, in the library's own terms.

Invariant: no exception of the ZooKeeper client leaves this package; callers catch `RegistryError`
or one of these.
"""

from zkbroker.errors import RegistryError


class NoNode(RegistryError):
    """The node, or the parent of a new one, does not exist."""


class NodeExists(RegistryError):
    """The node exists already."""


class BadVersion(RegistryError):
    """The node was changed by another client since it was read."""


class NotEmpty(RegistryError):
    """The node has children and cannot be deleted."""


class ConnectionLost(RegistryError):
    """No answer from ZooKeeper in time; a change may have been made."""


class SessionLost(RegistryError):
    """The session is over: every ephemeral node made in it is gone or about to go."""


class NotPermitted(RegistryError):
    """The session's login does not have the rights on a node."""


class ZkLoginRefused(RegistryError):
    """ZooKeeper refused the login, or requires one and none is set."""


class TransactionFailed(RegistryError):
    """A transaction was not made: the operation `index` failed with `cause`."""

    def __init__(self, index: int, path: str, cause: RegistryError) -> None:
        super().__init__(f"transaction refused at operation {index} ({path}): {cause}")
        self.index = index
        self.path = path
        self.cause = cause


class BrokerIdInUse(RegistryError):
    """Another live broker is registered under this id."""


class ClaimBlocked(RegistryError):
    """Another member owns one of the claimed partitions; nothing was claimed.

    `path` is the node of that partition's owner, and `owner` is its content.
    """

    def __init__(self, path: str, owner: str) -> None:
        super().__init__(f"{path} is owned by {owner or 'an unknown consumer'}")
        self.path = path
        self.owner = owner
