"""Random values for every protocol message, made of its wire metadata."""

from random import Random
from typing import Any

from zkbroker.protocol import BROKER_VERSIONS, MESSAGES
from zkbroker.protocol.schema import Kind, wire_fields

BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}
LETTERS = "az \0\n\x7fé߿ࠀ\uffff\U0001f600"

EVERY_MESSAGE = [
    (message, version)
    for api_key, (low, high) in BROKER_VERSIONS.items()
    for message in MESSAGES[api_key]
    for version in range(low, high + 1)
]


def random_message(message: Any, version: int, chance: Random) -> Any:
    """Return a message of a version: fields it lacks keep their default, so they survive a trip."""
    return message(
        **{
            field.name: _value(field.wire, version, chance)
            for field in wire_fields(message)
            if field.wire.present(version)
        },
    )


def _value(wire: Any, version: int, chance: Random) -> Any:
    if wire.allows_null(version) and chance.random() < 0.3:
        return None
    if wire.kind is not Kind.ARRAY:
        return _scalar(wire.kind, chance)
    count = chance.randrange(4)
    if isinstance(wire.item, Kind):
        return [_scalar(wire.item, chance) for _ in range(count)]
    return [random_message(wire.item, version, chance) for _ in range(count)]


def _scalar(kind: Kind, chance: Random) -> Any:
    if kind in BITS:
        edge = 2 ** (BITS[kind] - 1)
        return chance.choice((0, -1, edge - 1, -edge, *(chance.randrange(-edge, edge),) * 4))
    if kind is Kind.BOOLEAN:
        return chance.random() < 0.5
    if kind is Kind.STRING:
        return "".join(chance.choices(LETTERS, k=chance.randrange(12)))
    return chance.randbytes(chance.choice((0, 1, 40, 80)))
