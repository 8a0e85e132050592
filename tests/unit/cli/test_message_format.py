import json

import pytest

from zkbroker.cli.message_format import compile_format, json_line, parse_delimiter
from zkbroker.cli.unpacking import parse_serdes
from zkbroker.consumer import MessageAndMetadata
from zkbroker.errors import ConfigError


def message_of(key=b"k", value=b"value", headers=(), timestamp_type=0):
    return MessageAndMetadata("visits", 3, 7, key, value, 1500, timestamp_type, headers)


def formatted(text, **message):
    return compile_format(text, null=b"NULL")(message_of(**message))


@pytest.mark.parametrize(
    ("text", "message", "printed"),
    [
        ("%t %p %o %T %k/%K %s/%S %%\\n", {}, b"visits 3 7 1500 k/1 value/5 %\n"),
        ("%k %K %s %S", {"key": None, "value": None}, b"NULL -1 NULL -1"),
        ("%R%s", {"value": b"abc"}, b"\0\0\0\3abc"),
        ("%h", {"headers": (("a", b"1"), ("b", None))}, b"a=1,b=NULL"),
        ("ü\\t\\x01\\\\", {}, "ü\t\x01\\".encode()),
        ("\\n\\r\\t\\\\", {}, b"\n\r\t\\"),
        ("\\x41\\x4g\\65\\0", {}, b"A\x04gA\0"),
        ("\\q\\%\\", {}, b"q%\\"),
    ],
)
def test_format_tokens_and_escapes(text, message, printed):
    assert formatted(text, **message) == printed


@pytest.mark.parametrize("text", ["%q", "%", "100%"])
def test_unknown_token_is_refused_with_the_allowed_ones(text):
    with pytest.raises(ConfigError, match="give"):
        compile_format(text)


def test_key_and_value_are_unpacked_unless_null():
    key, value = parse_serdes(("key=b", "value=h"))
    line = compile_format("%k %s|%S", null=b"NULL", key=key, value=value)
    assert line(message_of(key=b"\1", value=b"\1\0")) == b"1 256|2"
    assert line(message_of(key=None, value=None)) == b"NULL NULL|-1"


def test_delimiter_escapes():
    assert parse_delimiter("\\t") == b"\t"
    assert parse_delimiter("::\\x01") == b"::\x01"


def test_json_line_has_the_fields_of_kcat():
    message = message_of(headers=(("a", b"1"), ("b", None)), timestamp_type=1)
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


def test_json_of_null_and_of_invalid_utf_8():
    shown = json.loads(json_line(message_of(key=None, value=b"\xff", timestamp_type=-1)))
    assert (shown["key"], shown["payload"], shown["tstype"]) == (None, "\ufffd", "unknown")
    assert "headers" not in shown


def test_header_name_with_invalid_utf_8():
    name = b"\xff\xfename".decode("utf-8", "surrogateescape")
    assert formatted("%h", headers=((name, b"1"),)) == b"\xff\xfename=1"
    shown = json.loads(json_line(message_of(headers=((name, b"1"),))))
    assert shown["headers"] == ["��name", "1"]
