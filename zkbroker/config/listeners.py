"""Listeners: `NAME://host:port`, as in `listeners` and `advertised.listeners`.

Invariant: every listener has a name of its own, a port of its own (but 0, which takes a free one)
and a security protocol: the one it is mapped to, or the one that it is named after.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from zkbroker.config.security import PLAINTEXT, PROTOCOLS
from zkbroker.errors import ConfigError

MAP_KEY = "listener.security.protocol.map"
_LISTENER = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9a-fA-F:.%]+\]|[^\[\]:/]*):(\d+)$")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener's name, host and port, and its protocol; an empty host is every address."""

    name: str
    host: str
    port: int
    protocol: str = field(default=PLAINTEXT, compare=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_endpoint(text: str, key: str = "listeners") -> Endpoint:
    """Parse one listener.

    Args:
        text: `NAME://host:port`, an IPv6 address in brackets, the host possibly empty.
        key: the property it comes from, for the message.

    Raises:
        ConfigError: it is no listener.
    """
    match = _LISTENER.match(text)
    if match is None or int(match.group(3)) > 65535:
        raise ConfigError(
            f"{key}={text!r} is not allowed: give NAME://host:port, an IPv6 address in brackets"
        )
    return Endpoint(match.group(1).upper(), match.group(2).strip("[]"), int(match.group(3)))


def parse_listeners(
    texts: tuple[str, ...], key: str, protocols: Mapping[str, str]
) -> tuple[Endpoint, ...]:
    """Parse a list of listeners and check that they do not conflict.

    Args:
        texts: the listeners.
        key: the property they come from, for messages.
        protocols: listener name → security protocol; a name that is missing is its own protocol.

    Raises:
        ConfigError: one is malformed, named twice, has the port of another, or has no protocol.
    """
    endpoints = []
    for text in texts:
        plain = parse_endpoint(text, key)
        protocol = protocols.get(plain.name, plain.name)
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"{key}: listener {plain.name} has no security protocol: add {plain.name}:PROTOCOL "
                f"to {MAP_KEY}, with one of {', '.join(PROTOCOLS)}"
            )
        endpoints.append(Endpoint(plain.name, plain.host, plain.port, protocol))
    names = [endpoint.name for endpoint in endpoints]
    ports = [endpoint.port for endpoint in endpoints if endpoint.port]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{key} names the listener {name} twice: give one of them another")
    for port in ports:
        if ports.count(port) > 1:
            raise ConfigError(f"{key} has port {port} twice: give every listener a port of its own")
    return tuple(endpoints)


def parse_protocol_map(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse `listener.security.protocol.map`: `NAME:PROTOCOL` pairs.

    Raises:
        ConfigError: a pair has no colon, a name stands twice, or a protocol does not exist.
    """
    protocols: dict[str, str] = {}
    for text in texts:
        name, colon, protocol = (part.strip().upper() for part in text.partition(":"))
        if not colon or not name:
            raise ConfigError(f"{MAP_KEY}={text!r} is not allowed: give NAME:PROTOCOL")
        if protocol not in PROTOCOLS:
            raise ConfigError(
                f"{MAP_KEY}={text!r} is not allowed: give {name}:PROTOCOL with one of "
                f"{', '.join(PROTOCOLS)}"
            )
        if protocols.setdefault(name, protocol) != protocol:
            raise ConfigError(f"{MAP_KEY} gives {name} two protocols: leave one of them out")
    return protocols
