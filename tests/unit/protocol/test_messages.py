"""Every version of every message: a round trip, in the published layout, name by name."""

from dataclasses import is_dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import published_layouts
from tests.support.wire_messages import EVERY_MESSAGE, message_strategy
from zkbroker.protocol import (
    BROKER_VERSIONS,
    MESSAGES,
    ApiKey,
    RequestHeader,
    codec,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from zkbroker.protocol.schema import KEYWORD_MESSAGES, Kind, wire_fields

NUMBERS = {Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64}
IDS = [f"{message.__name__}-v{version}" for message, version in EVERY_MESSAGE]


def plain(value, version):
    """What a message says in a version, in the form in which the layouts are read."""
    if is_dataclass(value):
        return {
            field.name: plain(getattr(value, field.name), version)
            for field in wire_fields(type(value))
            if field.wire.present(version)
        }
    return [plain(each, version) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("message", "version"), EVERY_MESSAGE, ids=IDS)
@settings(deadline=None, derandomize=True, max_examples=15)
@given(data=st.data())
def test_every_version_survives_a_round_trip_in_the_published_layout(message, version, data):
    key = next(key for key, pair in MESSAGES.items() if message in pair)
    layout = published_layouts.LAYOUTS[key][MESSAGES[key].index(message)]
    original = data.draw(message_strategy(message, version))
    encoded = codec.encode_bytes(original, version)
    assert published_layouts.read(layout, version, bytes(encoded)) == plain(original, version)
    decoded, end = codec.decode(message, version, encoded)
    assert decoded == original
    assert end == len(encoded)
    assert codec.encode_bytes(decoded, version) == encoded


def test_a_default_message_can_be_encoded_in_every_version():
    for message, version in EVERY_MESSAGE:
        decoded, _ = codec.decode(message, version, codec.encode_bytes(message(), version))
        assert decoded == message(), f"{message.__name__} v{version}"


def test_messages_with_several_numbers_in_a_row_are_made_by_keyword():
    """Or a field that comes between them would shift the others, and no type would show it."""
    waiting = {message for message, _ in EVERY_MESSAGE}
    while waiting:
        message = waiting.pop()
        wires = [field.wire for field in wire_fields(message)]
        rows = "".join("n" if each.kind in NUMBERS else " " for each in wires)
        assert message in KEYWORD_MESSAGES or "nnn" not in rows, message
        waiting |= {each.item for each in wires if isinstance(each.item, type)}


def test_every_served_api_has_a_published_layout():
    assert published_layouts.LAYOUTS.keys() == MESSAGES.keys()


@pytest.mark.parametrize("api_key", ApiKey)
def test_every_api_has_versions_and_two_messages_that_know_it(api_key):
    request, response = MESSAGES[api_key]
    assert request.api_key is api_key
    assert request.__name__.removesuffix("Request") == response.__name__.removesuffix("Response")
    low, high = BROKER_VERSIONS[api_key]
    assert 0 <= low <= high


@pytest.mark.parametrize("api_key", ApiKey)
def test_no_field_begins_or_ends_outside_the_served_versions(api_key):
    _, high = BROKER_VERSIONS[api_key]
    for message in MESSAGES[api_key]:
        for field in wire_fields(message):
            assert field.wire.since <= high
            assert field.wire.until is None or field.wire.until < high


@pytest.mark.parametrize("api_key", ApiKey)
@settings(deadline=None, derandomize=True, max_examples=10)
@given(data=st.data())
def test_requests_and_responses_survive_their_frames(api_key, data):
    version = data.draw(st.integers(*BROKER_VERSIONS[api_key]))
    request = data.draw(message_strategy(MESSAGES[api_key][0], version))
    response = data.draw(message_strategy(MESSAGES[api_key][1], version))
    client_id = data.draw(st.none() | st.text(max_size=10))
    if (api_key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0):
        client_id = None  # the one header without it
    header = RequestHeader(api_key, version, data.draw(st.integers(-(2**31), 2**31 - 1)), client_id)
    frame = b"".join(encode_request(header, request))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode_request(frame[4:]) == (header, request)
    frame = b"".join(encode_response(header.correlation_id, response, version))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode_response(api_key, version, frame[4:]) == (header.correlation_id, response)
