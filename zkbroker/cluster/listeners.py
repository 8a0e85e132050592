"""The listeners that a broker announces, and how they keep their ports over restarts.

Invariant: a restarted broker listens where it did before, so that clients find it.
"""

from collections.abc import Mapping, MutableMapping

Addresses = Mapping[str, tuple[str, int]]
"""Listener name → host and port."""


def parse_listeners(text: str) -> Addresses:
    """Parse `NAME://host:port`, separated by commas."""
    found = {}
    for each in text.split(","):
        name, _, address = each.partition("://")
        host, colon, port = address.rpartition(":")
        if colon:
            found[name] = (host.strip("[]"), int(port))
    return found


def keep_ports(
    properties: MutableMapping[str, str], address: tuple[str, int] | None, listeners: Addresses
) -> None:
    """Put the ports that the broker chose (0) into the properties of the next start.

    Args:
        properties: of the broker; they are changed.
        address: of its first listener, None before its first start.
        listeners: as announced.
    """
    if address is None:
        return
    properties["port"] = str(address[1])
    kept = []
    for each in filter(None, properties.get("listeners", "").split(",")):
        place, _, port = each.strip().rpartition(":")
        known = listeners.get(place.partition("://")[0].upper())
        kept.append(f"{place}:{known[1]}" if port == "0" and known is not None else each.strip())
    if kept:
        properties["listeners"] = ",".join(kept)
