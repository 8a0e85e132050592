"""Connections from this broker to the others, and to itself.

Invariant: brokers reach each other by one listener, that of `inter.broker.listener.name`, with its
security settings. A broker without a listener of that name is reached by its plain listener if this
broker's listener is plain, and otherwise not at all.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from zkbroker.config.security import NO_SECURITY, PLAINTEXT, ClientSecurity
from zkbroker.errors import NetworkError
from zkbroker.network.client.inter_broker import InterBrokerConnection
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.runtime import Runtime


class Line(Protocol):
    """A connection to one broker."""

    def send(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer."""

    def close(self) -> None:
        """Close it."""


@dataclass(frozen=True, eq=False)
class NoWay:
    """Replaces a connection to a broker that has no suitable listener."""

    why: str

    def send(self, request: Any, version: int) -> Any:
        """Raise NetworkError."""
        raise NetworkError(self.why)

    def close(self) -> None:
        """There is nothing to close."""


@dataclass(frozen=True, eq=False)
class Dialing:
    """Makes connections to brokers; each is opened at its first use.

    Args:
        runtime: of the broker.
        own: this broker's registration.
        local: host and port under which this machine reaches its own listener for brokers.
        listener: name of that listener.
        security: settings for connecting to it.
    """

    runtime: Runtime
    own: BrokerInfo
    local: tuple[str, int] | None = None
    listener: str = PLAINTEXT
    security: ClientSecurity = NO_SECURITY

    def connection(
        self,
        broker: BrokerInfo,
        purpose: str,
        timeout_ms: int,
        *,
        receive_buffer_bytes: int = -1,
    ) -> Line:
        """Make a connection.

        Args:
            broker: the broker to reach.
            purpose: suffix of the client id of its requests.
            timeout_ms: for each request.
            receive_buffer_bytes: SO_RCVBUF; -1 leaves the system's own.
        """
        reached = self._reached(broker)
        if reached is None:
            return NoWay(
                f"broker {broker.id} has no listener {self.listener}: it has "
                f"{', '.join(broker.listeners)}; give all brokers that listener"
            )
        host, port = reached
        name = host
        if broker.id == self.own.id and self.local is not None:
            # The advertised address may not be reachable from this machine itself.
            host, port = self.local
        return InterBrokerConnection(
            self.runtime,
            host,
            port,
            client_id=f"broker-{self.own.id}-{purpose}",
            timeout_ms=timeout_ms,
            receive_buffer_bytes=receive_buffer_bytes,
            security=self.security,
            server_name=name,
        )

    def _reached(self, broker: BrokerInfo) -> tuple[str, int] | None:
        found = broker.listeners.get(self.listener)
        if found is not None:
            return found[1:]
        plain = self.security.protocol == PLAINTEXT
        return broker.endpoint_of(PLAINTEXT) if plain else None
