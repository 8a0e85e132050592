import pytest

from zkbroker.cli.unpacking import parse_serdes, unpacking
from zkbroker.errors import ClientError, ConfigError


@pytest.mark.parametrize(
    ("form", "data", "shown"),
    [
        ("i", b"\x00\x00\x00\x05", b"5"),
        ("<i i", b"\7\0\0\0\10\0\0\0", b"7 8"),
        ("iis", b"\0\0\0\7\0\0\0\10abc", b"78abc"),
        ("bBb$", b"\0\xff\x80", b"0255-128"),
        ("q<Q", b"\xff" * 8 + b"\1" + b"\0" * 7, b"-11"),
        ("s", b"", b""),
        (">h<h", b"\x00\x01\x01\x00", b"11"),
        ("b B", b"\xff\xff", b"-1 255"),
        ("c s", b"abc", b"a bc"),
        ("q$", b"\x00" * 8, b"0"),
        ("b", b"\x01\x02", b"1"),
    ],
)
def test_bytes_are_shown_as_numbers_and_text(form, data, shown):
    assert unpacking(form)(data) == shown


@pytest.mark.parametrize("form", ["", "avro", "x", "i,i", "foo=i", "value=z"])
def test_invalid_format_is_refused(form):
    with pytest.raises(ConfigError, match="is not a format: give"):
        parse_serdes((form,))


@pytest.mark.parametrize(("form", "data"), [("i", b"\x00"), ("b$", b"\x01\x02"), ("c", b"")])
def test_data_of_the_wrong_length_is_refused(form, data):
    with pytest.raises(ClientError, match="bytes are left"):
        unpacking(form)(data)


def test_key_and_value_have_separate_formats():
    key, value = parse_serdes(("key=b", "value=c"))
    assert (key(b"\x01"), value(b"a")) == (b"1", b"a")
    assert parse_serdes(("key=b",))[1] is None
    key, value = parse_serdes(("b",))
    assert key(b"\x01") == value(b"\x01") == b"1"
