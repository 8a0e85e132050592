"""The properties of one of several brokers on a machine, from properties given for all.

    counts up      a port, unless it is 0 (any free one) or -1 (off): broker 2 gets the next
    own place      `legacy07.log.dir`: DIR for the first broker, DIR-broker-2 for the second
    not for all    a property that only one broker can have: refused, with a remedy

Invariant: a single broker gets the given properties unchanged.
"""

from collections.abc import Mapping

from zkbroker.errors import ConfigError

_PORTS = ("admin.port", "legacy07.listener", "legacy07.advertised.listener")
_PLACE = "legacy07.log.dir"
_DATA = "give the directory of the whole cluster (--data), in which each broker has one"
_PORT = "give the port of the first broker (--port), the others follow"
_OF_ONE = {
    "broker.id": "leave it out, brokers are numbered from 1",
    "legacy07.broker.id": "leave it out, it is that of broker.id",
    "log.dir": _DATA,
    "log.dirs": _DATA,
    "port": _PORT,
    "listeners": "give each listener port 0, as in SSL://127.0.0.1:0, or PLAINTEXT alone by --port",
    "advertised.port": _PORT,
    "advertised.listeners": _PORT,
}


def check_shared(properties: Mapping[str, str], brokers: int) -> None:
    """Check that properties can be those of several brokers.

    Raises:
        ConfigError: one of them is for a single broker.
    """
    for key, instead in _OF_ONE.items():
        value = properties.get(key, "").strip()
        if brokers > 1 and value and not _free_ports(key, value):
            raise ConfigError(f"{key}={value} cannot be that of {brokers} brokers: {instead}")


def properties_of(index: int, broker_id: int, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of one broker.

    Args:
        index: 0 for the first.
        broker_id: its id.
        properties: those for all.

    Raises:
        ConfigError: the port of a broker would be out of range.
    """
    own = dict(properties)
    if index == 0:
        return own
    for key in _PORTS:
        host, colon, port = own.get(key, "").strip().rpartition(":")
        if port.isdecimal() and int(port) > 0:
            if int(port) + index > 65535:
                raise ConfigError(f"{key}={own[key]} leaves no port for broker {broker_id}")
            own[key] = f"{host}{colon}{int(port) + index}"
    place = own.get(_PLACE, "").strip().rstrip("/")
    if place:
        own[_PLACE] = f"{place}-broker-{broker_id}"
    return own


def _free_ports(key: str, value: str) -> bool:
    """Whether each broker chooses these ports itself."""
    return key in ("port", "listeners") and all(
        each.strip().rpartition(":")[2] == "0" for each in value.split(",")
    )
