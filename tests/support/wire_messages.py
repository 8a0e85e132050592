"""Hypothesis strategies for every protocol message, made of its wire metadata."""

from hypothesis import strategies as st

from zkbroker.protocol import BROKER_VERSIONS, MESSAGES
from zkbroker.protocol.schema import Kind, wire_fields

SCALARS = {
    Kind.INT8: st.integers(-(2**7), 2**7 - 1),
    Kind.INT16: st.integers(-(2**15), 2**15 - 1),
    Kind.INT32: st.integers(-(2**31), 2**31 - 1),
    Kind.INT64: st.integers(-(2**63), 2**63 - 1),
    Kind.BOOLEAN: st.booleans(),
    Kind.STRING: st.text(st.characters(codec="utf-8"), max_size=12),
    Kind.RAW: st.binary(max_size=40),
    Kind.RECORDS: st.binary(max_size=80),
}

EVERY_MESSAGE = [
    (message, version)
    for api_key, (low, high) in BROKER_VERSIONS.items()
    for message in MESSAGES[api_key]
    for version in range(low, high + 1)
]


def message_strategy(message, version):
    """Messages of a version: fields it lacks keep their default, so that they survive a trip."""
    return st.builds(
        message,
        **{
            field.name: _wire_strategy(field.wire, version)
            for field in wire_fields(message)
            if field.wire.present(version)
        },
    )


def _wire_strategy(wire, version):
    if wire.kind is Kind.ARRAY:
        item = wire.item
        items = SCALARS[item] if isinstance(item, Kind) else message_strategy(item, version)
        strategy = st.lists(items, max_size=3)
    else:
        strategy = SCALARS[wire.kind]
    return st.none() | strategy if wire.allows_null(version) else strategy
