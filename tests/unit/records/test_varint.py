"""Variable-length integers of magic 2."""

import pytest

from zkbroker.errors import CorruptMessage
from zkbroker.records.varint import decode_varint, encode_varint


def test_varints_have_protobuf_bytes_and_round_trip():
    known = {0: "00", -1: "01", 1: "02", 63: "7e", 64: "8001", -65: "8101", 8192: "808001"}
    assert {value: encode_varint(value).hex() for value in known} == known
    for value in (*known, 2**31, -(2**31), 2**63 - 1, -(2**63)):
        data = encode_varint(value)
        assert decode_varint(data, 0, len(data)) == (value, len(data))


@pytest.mark.parametrize("data", ["", "80", "80" * 10 + "01", "ff" * 9 + "02"])
def test_malformed_varints_are_refused(data):
    raw = bytes.fromhex(data)
    with pytest.raises(CorruptMessage):
        decode_varint(raw, 0, len(raw))
