"""Encoders of values and keys."""

import pytest

from zkbroker.producer import (
    DefaultEncoder,
    IntegerEncoder,
    JsonEncoder,
    LongEncoder,
    NullEncoder,
    StringEncoder,
)


def test_encoders_encode_values_and_keep_null():
    assert DefaultEncoder().to_bytes(bytearray(b"x")) == b"x"
    assert StringEncoder().to_bytes("ü") == b"\xc3\xbc"
    assert StringEncoder("utf-16-be").to_bytes("a") == b"\x00a"
    assert JsonEncoder().to_bytes({"a": [1, "ü"]}) == '{"a":[1,"ü"]}'.encode()
    assert IntegerEncoder().to_bytes(-2) == b"\xff\xff\xff\xfe"
    assert LongEncoder().to_bytes(258) == b"\0\0\0\0\0\0\1\2"
    assert NullEncoder().to_bytes("x") is None
    for encoder in (DefaultEncoder, StringEncoder, JsonEncoder, IntegerEncoder, LongEncoder):
        assert encoder().to_bytes(None) is None


def test_default_encoder_refuses_text_and_names_setting():
    with pytest.raises(TypeError, match=r"serializer\.class"):
        DefaultEncoder().to_bytes("text")
