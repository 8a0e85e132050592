"""Authorization of 0.7 clients: the broker's authorizer decides, as for every other listener.

    produce   Write on the topic; Create on it or on the cluster, if there is no such topic yet
    fetch     Read on the topic
    offsets   Describe on the topic

Invariant: the protocol has no authentication, so every client is `User:ANONYMOUS` from its address.
0.7 has no error for missing permissions: a fetch is answered with error -1, as for an invalid
topic; any other request closes the connection.
"""

from collections.abc import Callable
from typing import NamedTuple

from zkbroker.broker.guard import Permissions
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.network.server.session import Session
from zkbroker.security import ANONYMOUS, CLUSTER, Operation, Principal, Resource, ResourceType


class _Client(NamedTuple):
    principal: Principal
    peer: str
    client_id: str | None


class Guard07:
    """Asks for the permissions of one listener.

    Args:
        permissions: of the broker; None if every client may do everything.
        exists: returns whether there is a topic.
    """

    def __init__(self, permissions: Permissions | None, exists: Callable[[str], bool]) -> None:
        self._permissions = permissions
        self._exists = exists

    def may(self, session: Session, operation: Operation, topic: str) -> bool:
        """Whether a client may do an operation on a topic."""
        if self._permissions is None:
            return True
        resource = Resource(ResourceType.TOPIC, topic)
        return self._permissions.allowed(_client(session), operation, resource)

    def require(self, session: Session, operation: Operation, topic: str) -> None:
        """Check that a client may do an operation on a topic.

        Raises:
            ProtocolError: it may not.
        """
        if not self.may(session, operation, topic):
            raise ProtocolError(
                f"{ANONYMOUS} may not {operation.name} topic {topic[:100]!r}: 0.7 has no error "
                "for that",
                code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )

    def require_write(self, session: Session, topic: str) -> None:
        """Check that a client may produce to a topic.

        Raises:
            ProtocolError: it may not.
        """
        if self._permissions is None:
            return
        self.require(session, Operation.WRITE, topic)
        if not self._exists(topic):
            client = _client(session)
            if not self._permissions.allowed(client, Operation.CREATE, CLUSTER, audited=False):
                self.require(session, Operation.CREATE, topic)


def _client(session: Session) -> _Client:
    return _Client(ANONYMOUS, session.ip, "0.7")
