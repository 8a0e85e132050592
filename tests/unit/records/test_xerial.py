"""Snappy in the framing of Java's library."""

import struct

import pytest
import snappy

from zkbroker.errors import MessageSizeTooLarge
from zkbroker.records import xerial

TEXT = b"GET /index.html 200 " * 5000
HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


@pytest.mark.parametrize("framed", [True, False])
def test_limit_is_exact_over_all_blocks(framed):
    packed = xerial.compress(TEXT) if framed else snappy.compress(TEXT)
    assert xerial.decompress(packed, len(TEXT)) == TEXT
    with pytest.raises(MessageSizeTooLarge):
        xerial.decompress(packed, len(TEXT) - 1)


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (HEADER[:12], "header is cut off"),
        (HEADER + b"\x00\x00", "length is cut off"),
        (HEADER + struct.pack(">i", 5) + b"abc", "5 bytes with 3 left"),
        (HEADER + struct.pack(">i", -1), "-1 bytes"),
        (b"\xff" * 6, "not a snappy block"),
        (b"\xff\xff\xff\x03abc", "claims to hold"),
        (HEADER + struct.pack(">i", 7) + b"\xff\xff\xff\x03abc", "claims to hold"),
        (b"\x05\xff\xff", "malformed"),
    ],
)
def test_malformed_snappy_is_refused_with_reason(packed, reason):
    with pytest.raises(ValueError, match=reason):
        xerial.decompress(packed, 1 << 30)
