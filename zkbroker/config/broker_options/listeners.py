"""The listeners of a broker, and the addresses that clients get.

Invariant: `listeners` wins over `host.name` and `port`; a listener that no client could connect to,
or that brokers could not use, is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from zkbroker.config.levels import LEVELS
from zkbroker.config.listeners import (
    Endpoint,
    parse_endpoint,
    parse_listeners,
    parse_protocol_map,
)
from zkbroker.config.schema import Int, Str, StrList, option
from zkbroker.config.security import PLAINTEXT, PROTOCOLS
from zkbroker.errors import ConfigError

_INTER_BROKER = "inter.broker.listener.name"
_INTER_BROKER_PROTOCOL = "security.inter.broker.protocol"


@dataclass(frozen=True, kw_only=True)
class ListenerOptions:
    """Addresses for clients and other brokers."""

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
        "Address that clients of each listener connect to, `NAME://host:port` separated by commas; "
        "a listener that is left out is not registered.")
    listener_protocols: tuple[str, ...] = option("listener.security.protocol.map", StrList(), (),
        "`NAME:PROTOCOL` pairs: the security protocol of each listener that is not named after "
        "one. Protocols are PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL.")
    inter_broker_listener: str = option("inter.broker.listener.name", Str(), "",
        "Listener for connections between brokers. Without it and without "
        "security.inter.broker.protocol the one named PLAINTEXT, or else the first of that "
        "protocol.")
    security_inter_broker: str = option("security.inter.broker.protocol", Str(("", *PROTOCOLS)), "",
        "Security protocol between brokers, in place of inter.broker.listener.name: brokers use "
        "the listener that is named after it.")
    # fmt: on

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The listeners to open."""
        protocols = parse_protocol_map(self.listener_protocols)
        if self.listeners:
            return parse_listeners(self.listeners, "listeners", protocols)
        return (Endpoint(PLAINTEXT, self.host, self.port),)

    @property
    def inter_broker(self) -> str:
        """Name of the listener for connections between brokers."""
        given = self.inter_broker_listener.upper() or self.security_inter_broker
        if given:
            return given
        plain = [each.name for each in self._registered() if each.protocol == PLAINTEXT]
        return PLAINTEXT if PLAINTEXT in plain or not plain else plain[0]

    def advertised_endpoints(
        self, bound: Mapping[str, tuple[str, int]], machine: Callable[[], str]
    ) -> tuple[Endpoint, ...]:
        """The endpoints that clients get, one for each listener in the same order.

        Args:
            bound: listener name → bound address, for ports that were given as 0.
            machine: finds this machine's own name, for listeners on every address.
        """
        given = {endpoint.name: endpoint for endpoint in self._advertised()}
        found: list[Endpoint] = []
        for endpoint in self._registered():
            advertised = given.get(endpoint.name, endpoint)
            host = advertised.host or endpoint.host
            if host in ("", "0.0.0.0", "::"):  # noqa: S104 - replaced, not bound
                host = machine()
            port = advertised.port or bound[endpoint.name][1]
            found.append(Endpoint(endpoint.name, host, port, endpoint.protocol))
        return tuple(found)

    def _registered(self) -> tuple[Endpoint, ...]:
        """Return the listeners that are registered."""
        if not self.advertised_listeners:
            return self.endpoints
        names = {endpoint.name for endpoint in self._advertised()}
        return tuple(endpoint for endpoint in self.endpoints if endpoint.name in names)

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

    def _check_listeners(self, level: str) -> None:
        named = [endpoint.name for endpoint in self.endpoints]
        advertised = [endpoint.name for endpoint in self._advertised()]
        for endpoint in self._advertised():
            if endpoint.name not in named:
                raise ConfigError(
                    f"advertised.listeners names {endpoint.name}, and listeners does not: add it "
                    "to listeners, or leave it out"
                )
            if advertised.count(endpoint.name) > 1:
                raise ConfigError(
                    f"advertised.listeners names {endpoint.name} twice: leave one of them out"
                )
            if endpoint.host in ("0.0.0.0", "::"):  # noqa: S104 - refused, not bound
                raise ConfigError(
                    f"advertised.listeners={endpoint} is not allowed: no client can connect to "
                    f"{endpoint.host}"
                )
        self._check_inter_broker(level)

    def _check_inter_broker(self, level: str) -> None:
        if self.inter_broker_listener and self.security_inter_broker:
            raise ConfigError(
                f"{_INTER_BROKER} and {_INTER_BROKER_PROTOCOL} are both set: leave one of them out"
            )
        registered = {each.name: each.protocol for each in self._registered()}
        names = ", ".join(registered)
        if self.inter_broker not in registered:
            if self.inter_broker_listener:
                raise ConfigError(
                    f"{_INTER_BROKER}={self.inter_broker_listener} is no listener that is "
                    f"advertised: give one of {names}"
                )
            asked = f"{_INTER_BROKER_PROTOCOL}={self.security_inter_broker or PLAINTEXT}"
            raise ConfigError(
                f"brokers have no listener among themselves: {asked} needs a listener of that "
                f"name; set {_INTER_BROKER} to one of {names}"
            )
        if level == LEVELS[0] and registered[self.inter_broker] != PLAINTEXT:
            raise ConfigError(
                f"{_INTER_BROKER}={self.inter_broker} speaks {registered[self.inter_broker]}, and "
                f"brokers of inter.broker.protocol.version={level} speak PLAINTEXT alone: give "
                "another listener, or a later version"
            )
