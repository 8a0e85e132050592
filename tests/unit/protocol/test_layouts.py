"""Every version of every message is laid out as published, name by name."""

from dataclasses import is_dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import published_layouts
from tests.support.wire_messages import EVERY_MESSAGE, message_strategy
from zkbroker.protocol import MESSAGES, codec
from zkbroker.protocol.schema import wire_fields


def plain(value, version):
    """What a message says in a version, in the form in which the layouts are read."""
    if is_dataclass(value):
        return {
            field.name: plain(getattr(value, field.name), version)
            for field in wire_fields(type(value))
            if field.wire.present(version)
        }
    return [plain(each, version) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("message", "version"), EVERY_MESSAGE, ids=[f"{m.__name__}-v{v}" for m, v in EVERY_MESSAGE]
)
@settings(deadline=None, derandomize=True, max_examples=10)
@given(data=st.data())
def test_a_message_is_laid_out_as_published(message, version, data):
    key = next(key for key, pair in MESSAGES.items() if message in pair)
    layout = published_layouts.LAYOUTS[key][MESSAGES[key].index(message)]
    original = data.draw(message_strategy(message, version))
    encoded = bytes(codec.encode_bytes(original, version))
    assert published_layouts.read(layout, version, encoded) == plain(original, version)


def test_every_served_api_has_a_published_layout():
    assert published_layouts.LAYOUTS.keys() == MESSAGES.keys()
