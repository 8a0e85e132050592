"""Bytes shown as numbers and text."""

import pytest

from zkbroker.cli.unpacking import parse_serdes, unpacking
from zkbroker.errors import ClientError, ConfigError


@pytest.mark.parametrize(
    ("form", "data", "shown"),
    [
        ("i", b"\x00\x00\x00\x05", b"5"),
        ("<i", b"\x05\x00\x00\x00", b"5"),
        (">h<h", b"\x00\x01\x01\x00", b"11"),
        ("b B", b"\xff\xff", b"-1 255"),
        ("c s", b"abc", b"a bc"),
        ("q$", b"\x00" * 8, b"0"),
        ("b", b"\x01\x02", b"1"),
    ],
)
def test_form(form, data, shown):
    assert unpacking(form)(data) == shown


@pytest.mark.parametrize("form", ["", "avro", "x", "i,i"])
def test_what_is_no_format_is_refused(form):
    with pytest.raises(ConfigError, match="is not a format"):
        unpacking(form)


@pytest.mark.parametrize(("form", "data"), [("i", b"\x00"), ("b$", b"\x01\x02")])
def test_bytes_that_do_not_fit_are_named(form, data):
    with pytest.raises(ClientError, match="bytes are left"):
        unpacking(form)(data)


def test_keys_and_values_have_formats_of_their_own():
    key, value = parse_serdes(("key=b", "value=c"))
    assert (key(b"\x01"), value(b"a")) == (b"1", b"a")
    assert parse_serdes(("key=b",))[1] is None
    key, value = parse_serdes(("b",))
    assert key(b"\x01") == value(b"\x01") == b"1"
