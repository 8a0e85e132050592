"""Every version of every message round-trips in the published layout."""

from random import Random

import pytest

from tests.support import published_layouts
from tests.support.recorded_frames import plain
from tests.support.wire_messages import EVERY_MESSAGE, random_message
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


@pytest.mark.parametrize(("message", "version"), EVERY_MESSAGE, ids=IDS)
def test_every_version_round_trips_in_published_layout(message, version):
    key = next(key for key, pair in MESSAGES.items() if message in pair)
    layout = published_layouts.LAYOUTS[key][MESSAGES[key].index(message)]
    chance = Random(version)
    for original in (message(), *(random_message(message, version, chance) for _ in range(15))):
        encoded = codec.encode_bytes(original, version)
        assert published_layouts.read(layout, version, bytes(encoded)) == plain(original, version)
        decoded, end = codec.decode(message, version, encoded)
        assert decoded == original
        assert end == len(encoded)
        assert codec.encode_bytes(decoded, version) == encoded


def test_messages_with_adjacent_numbers_are_keyword_only():
    """A field added between them would shift the others, and no type would reveal it."""
    pending = {message for message, _ in EVERY_MESSAGE}
    while pending:
        message = pending.pop()
        wires = [field.wire for field in wire_fields(message)]
        rows = "".join("n" if each.kind in NUMBERS else " " for each in wires)
        assert message in KEYWORD_MESSAGES or "nnn" not in rows, message
        pending |= {each.item for each in wires if isinstance(each.item, type)}


@pytest.mark.parametrize("api_key", ApiKey)
def test_field_versions_are_within_served_versions(api_key):
    _, high = BROKER_VERSIONS[api_key]
    for message in MESSAGES[api_key]:
        for field in wire_fields(message):
            assert field.wire.since <= high
            assert field.wire.until is None or field.wire.until < high


@pytest.mark.parametrize("api_key", ApiKey)
def test_requests_and_responses_round_trip_in_frames(api_key):
    chance = Random(api_key)
    asked, answered = MESSAGES[api_key]
    assert asked.api_key is api_key
    low, high = BROKER_VERSIONS[api_key]
    for version in range(low, high + 1):
        request = random_message(asked, version, chance)
        response = random_message(answered, version, chance)
        client_id = chance.choice((None, "", "é" * 10))
        if (api_key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0):
            client_id = None  # the only header without one
        correlation_id = chance.randrange(-(2**31), 2**31)
        header = RequestHeader(api_key, version, correlation_id, client_id)
        frame = b"".join(encode_request(header, request))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert decode_request(frame[4:]) == (header, request)
        frame = b"".join(encode_response(correlation_id, response, version))
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert decode_response(api_key, version, frame[4:]) == (correlation_id, response)
