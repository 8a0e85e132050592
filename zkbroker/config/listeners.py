"""Listeners: `NAME://host:port`, as in `listeners` and `advertised.listeners`.

Invariant: only the protocol PLAINTEXT is spoken; a listener with another one is refused with the
reason, never opened unprotected.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.errors import ConfigError

PLAINTEXT = "PLAINTEXT"
_LISTENER = re.compile(r"([A-Za-z0-9_.-]+)://(\[[0-9a-fA-F:.%]+\]|[^\[\]:/]*):(\d+)$")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener's name, host and port; an empty host is every address."""

    name: str
    host: str
    port: int

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
    """Parse a list of listeners and check that all of them can be served.

    Args:
        texts: the listeners.
        key: the property they come from, for messages.
        protocols: listener name → security protocol; a name that is missing is its own protocol.

    Raises:
        ConfigError: one is malformed, named twice, or not PLAINTEXT.
    """
    endpoints = tuple(parse_endpoint(text, key) for text in texts)
    names = [endpoint.name for endpoint in endpoints]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"{key} names the listener {name} twice")
        protocol = protocols.get(name, name)
        if protocol != PLAINTEXT:
            raise ConfigError(
                f"{key}: listener {name} asks for {protocol}, only {PLAINTEXT} is spoken; "
                f"map it in listener.security.protocol.map, or put a TLS proxy in front"
            )
    return endpoints


def parse_protocol_map(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse `listener.security.protocol.map`: `NAME:PROTOCOL` pairs.

    Raises:
        ConfigError: a pair has no colon.
    """
    protocols: dict[str, str] = {}
    for text in texts:
        name, colon, protocol = text.partition(":")
        if not colon:
            raise ConfigError(
                f"listener.security.protocol.map={text!r} is not allowed: give NAME:PROTOCOL"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols
