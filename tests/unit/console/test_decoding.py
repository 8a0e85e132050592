import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.console.decoding import SHOWN_BYTES, shown


def test_text_json_hex_and_base64():
    assert shown(b'{"a": [1, "\xc3\xa9"]}') == {
        "bytes": 16,
        "shown": 16,
        "text": '{"a": [1, "é"]}',
        "json": {"a": [1, "\u00e9"]},
        "hex": b'{"a": [1, "\xc3\xa9"]}'.hex(),
        "base64": "eyJhIjogWzEsICLDqSJdfQ==",
    }


def test_null_and_empty_values():
    assert shown(None) is None
    assert shown(b"")["text"] == ""


def test_invalid_utf_8_has_no_text():
    assert shown(b"\xff\xfe")["text"] is None


def test_long_value_is_cut_between_characters():
    found = shown("é".encode() * SHOWN_BYTES)
    assert (found["bytes"], found["shown"]) == (2 * SHOWN_BYTES, SHOWN_BYTES)
    assert found["text"] == "é" * (SHOWN_BYTES // 2)
    assert shown("aé".encode(), 2)["text"] == "a"
    assert shown(b'{"a":1}', 6)["json"] is None


@pytest.mark.parametrize(
    "text", ["1", '"x"', "{", "[NaN]", "[1e999]", "[" * 60_000, "[" + "9" * 5000 + "]", "{]"]
)
def test_scalar_or_invalid_json_has_no_json_form(text):
    assert shown(text.encode())["json"] is None


@given(st.binary(max_size=300), st.integers(0, 400))
def test_every_form_is_valid_json(data, most):
    found = shown(data, most)
    again = json.loads(json.dumps(found, allow_nan=False))
    assert bytes.fromhex(again["hex"]) == data[:most]
    assert again["shown"] == min(len(data), most)
