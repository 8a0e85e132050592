"""What a broker listens on, and what clients are told to connect to.

Invariant: `listeners` counts where it is given, `host.name` and `port` where it is not; a listener
that nobody could connect to, or that brokers would not use, is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zkbroker.config.listeners import (
    PLAINTEXT,
    Endpoint,
    parse_endpoint,
    parse_listeners,
    parse_protocol_map,
)
from zkbroker.config.schema import Int, Str, StrList, option
from zkbroker.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ListenerOptions:
    """Where clients and other brokers reach it."""

    # fmt: off
    host: str = option("host.name hostname", Str(), "",
        "Host or address to listen on where `listeners` is not given; empty is every address.")
    port: int = option("port", Int(0, 65535), 9092,
        "Port to listen on where `listeners` is not given; 0 takes a free one.")
    advertised_host: str = option("advertised.host.name", Str(), "",
        "Host that clients connect to; when empty `host.name`, or else the name of this machine.")
    advertised_port: int = option("advertised.port", Int(-1, 65535), -1,
        "Port that clients connect to; -1 is the port of the listener.")
    listeners: tuple[str, ...] = option("listeners", StrList(), (),
        "Listeners of this broker, `NAME://host:port` separated by commas.")
    advertised_listeners: tuple[str, ...] = option("advertised.listeners", StrList(), (),
        "Address that clients of each listener connect to, `NAME://host:port` separated by commas.")
    listener_protocols: tuple[str, ...] = option("listener.security.protocol.map", StrList(), (),
        "`NAME:PROTOCOL` pairs; every protocol in use must be PLAINTEXT.")
    inter_broker_listener: str = option("inter.broker.listener.name", Str(), "",
        "Listener that brokers use among themselves. It must be the first of `listeners`.")
    security_inter_broker: str = option(
        "security.inter.broker.protocol", Str(choices=("PLAINTEXT",)), "PLAINTEXT",
        "Only PLAINTEXT, which is without effect; any other protocol is refused. Put a TLS proxy "
        "or a private network between brokers.")
    # fmt: on

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """What to listen on."""
        protocols = parse_protocol_map(self.listener_protocols)
        if self.listeners:
            return parse_listeners(self.listeners, "listeners", protocols)
        return (Endpoint(PLAINTEXT, self.host, self.port),)

    def advertised_endpoints(
        self, bound: Mapping[str, tuple[str, int]], machine: Callable[[], str]
    ) -> tuple[Endpoint, ...]:
        """What clients are told, one endpoint for each listener in the same order.

        Args:
            bound: listener name → address really listened on, for ports that were left free.
            machine: finds this machine's own name, for listeners on every address.
        """
        given = {endpoint.name: endpoint for endpoint in self._advertised()}
        found: list[Endpoint] = []
        for endpoint in self.endpoints:
            advertised = given.get(endpoint.name, endpoint)
            host = advertised.host or endpoint.host
            if host in ("", "0.0.0.0", "::"):  # noqa: S104 - replaced, not bound
                host = machine()
            port = advertised.port or bound[endpoint.name][1]
            found.append(Endpoint(endpoint.name, host, port))
        return tuple(found)

    def _advertised(self) -> tuple[Endpoint, ...]:
        if self.advertised_listeners:
            return tuple(
                parse_endpoint(text, "advertised.listeners") for text in self.advertised_listeners
            )
        if not self.advertised_host and self.advertised_port < 0:
            return ()
        first = self.endpoints[0]
        return (
            Endpoint(
                first.name,
                self.advertised_host or first.host,
                self.advertised_port if self.advertised_port >= 0 else first.port,
            ),
        )

    def _check_listeners(self) -> None:
        named = {endpoint.name for endpoint in self.endpoints}
        first = self.endpoints[0].name
        if self.inter_broker_listener not in ("", first):
            raise ConfigError(
                f"inter.broker.listener.name={self.inter_broker_listener} is not allowed: brokers "
                f"use the first listener of each other, which is {first}; put that one first in "
                "listeners"
            )
        for endpoint in self._advertised():
            if endpoint.name not in named:
                raise ConfigError(f"advertised.listeners names {endpoint.name}, listeners does not")
            if endpoint.host in ("0.0.0.0", "::"):  # noqa: S104 - refused, not bound
                raise ConfigError(
                    f"advertised.listeners={endpoint} is not allowed: no client can connect to "
                    f"{endpoint.host}"
                )
