import json

import pytest

from zkbroker.cli.message_format import compile_format, json_line, parse_delimiter
from zkbroker.cli.unpacking import parse_serdes, unpacking
from zkbroker.consumer import MessageAndMetadata
from zkbroker.errors import ClientError, ConfigError


def a_message(key=b"k", value=b"value", headers=(), timestamp_type=0):
    return MessageAndMetadata("visits", 3, 7, key, value, 1500, timestamp_type, headers)


def show(text, **message):
    return compile_format(text, null=b"NULL")(a_message(**message))


def test_every_token():
    assert show("%t %p %o %T %k/%K %s/%S %%\\n") == b"visits 3 7 1500 k/1 value/5 %\n"


def test_null_key_and_value():
    assert show("%k %K %s %S", key=None, value=None) == b"NULL -1 NULL -1"


def test_binary_length():
    assert show("%R%s", value=b"abc") == b"\0\0\0\3abc"


def test_headers():
    assert show("%h", headers=(("a", b"1"), ("b", None))) == b"a=1,b=NULL"


def test_text_outside_ascii_and_escapes():
    assert show("ü\\t\\x01\\\\") == "ü\t\x01\\".encode()


@pytest.mark.parametrize("text", ["%q", "%", "100%"])
def test_a_broken_format_names_what_is_allowed(text):
    with pytest.raises(ConfigError, match="give"):
        compile_format(text)


def test_escapes_are_kcats():
    assert show("\\n\\r\\t\\\\") == b"\n\r\t\\"
    assert show("\\x41\\x4g\\65\\0") == b"A\x04gA\0"
    assert show("\\q\\%\\") == b"q%\\"


@pytest.mark.parametrize(
    ("form", "data", "shown"),
    [
        ("ii", b"\0\0\0\7\0\0\0\10abc", b"78"),
        ("<i i", b"\7\0\0\0\10\0\0\0", b"7 8"),
        ("iis", b"\0\0\0\7\0\0\0\10abc", b"78abc"),
        ("bBb$", b"\0\xff\x80", b"0255-128"),
        ("hcc", b"\0\1ab", b"1ab"),
        ("q<Q", b"\xff" * 8 + b"\1" + b"\0" * 7, b"-11"),
        ("s", b"", b""),
    ],
)
def test_bytes_are_shown_as_numbers(form, data, shown):
    key, value = parse_serdes((f"value={form}",))
    assert key is None
    assert compile_format("%s|%S", value=value)(a_message(value=data)) == (
        shown + b"|%d" % len(data)
    )


def test_both_are_unpacked_and_null_is_null():
    key, value = parse_serdes(("b",))
    line = compile_format("%k %s", null=b"NULL", key=key, value=value)
    assert line(a_message(key=b"\1", value=None)) == b"1 NULL"


@pytest.mark.parametrize("text", ["avro", "value=z", "", "foo=i"])
def test_a_format_that_is_none_names_what_is_allowed(text):
    with pytest.raises(ConfigError, match="give"):
        parse_serdes((text,))


@pytest.mark.parametrize(("form", "data"), [("i", b"abc"), ("b$", b"ab"), ("c", b"")])
def test_data_that_does_not_fit_says_so(form, data):
    with pytest.raises(ClientError, match="bytes are left"):
        unpacking(form)(data)


def test_delimiters():
    assert parse_delimiter("\\t") == b"\t"
    assert parse_delimiter("::\\x01") == b"::\x01"


def test_json_lines_have_kcats_fields():
    message = a_message(headers=(("a", b"1"), ("b", None)), timestamp_type=1)
    assert json.loads(json_line(message)) == {
        "topic": "visits",
        "partition": 3,
        "offset": 7,
        "tstype": "logappend",
        "ts": 1500,
        "headers": ["a", "1", "b", None],
        "key": "k",
        "payload": "value",
    }


def test_json_of_nulls_and_of_bytes_that_are_no_text():
    shown = json.loads(json_line(a_message(key=None, value=b"\xff", timestamp_type=-1)))
    assert (shown["key"], shown["payload"], shown["tstype"]) == (None, "\ufffd", "unknown")
    assert "headers" not in shown


def test_a_header_name_that_is_not_utf_8():
    name = b"\xff\xfename".decode("utf-8", "surrogateescape")
    assert show("%h", headers=((name, b"1"),)) == b"\xff\xfename=1"
    shown = json.loads(json_line(a_message(headers=((name, b"1"),))))
    assert shown["headers"] == ["��name", "1"]
