"""Requests of one fetcher to its leader.

Invariant: one request at a time, over one connection, in the versions that the inter-broker level
fixes. A failed connection is closed, and the next request opens another one.
"""

from typing import Any

from zkbroker.errors import NetworkError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.inter_broker import INTER_BROKER_VERSIONS
from zkbroker.replica.fetching import Connect, LeaderConnection


class LeaderRequests:
    """Sends the requests of one fetcher to its leader.

    Args: number is that of the fetcher among those for the leader; level is
        `inter.broker.protocol.version`.
    """

    def __init__(self, leader: int, number: int, connect: Connect, level: str) -> None:
        self.leader = leader
        self._number = number
        self._connect = connect
        self._versions = INTER_BROKER_VERSIONS[level]
        self.fetch_version = self._versions[ApiKey.FETCH]
        self.knows_epochs = ApiKey.OFFSET_FOR_LEADER_EPOCH in self._versions
        """Whether the leader can be asked where an epoch ends."""
        self._connection: LeaderConnection | None = None
        self._stopping = False

    def send(self, request: Any) -> Any:
        """Send a request and wait for its answer.

        Raises:
            ZkbrokerError: no answer came in time, or `stop` was called meanwhile.
        """
        self._require_running()
        if self._connection is None:
            self._connection = self._connect(self.leader, self._number)
            self._require_running()
        answer = self._connection.send(request, self._versions[request.api_key])
        self._require_running()
        return answer

    def _require_running(self) -> None:
        if self._stopping:
            self.disconnect()
            raise NetworkError("the fetcher is stopping")

    def stop(self) -> None:
        """Make a pending request fail soon; later answers are dropped."""
        self._stopping = True
        self.disconnect()

    def disconnect(self) -> None:
        """Close the connection: a pending request fails, and the next one opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
