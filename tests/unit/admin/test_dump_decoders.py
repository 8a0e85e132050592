import struct

import pytest

from zkbroker.admin.dump_decoders import decode_offsets, named_decoder
from zkbroker.errors import ConfigError


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("kafka.serializer.StringDecoder", b"ab\xff", "ab\ufffd"),
        ("bytes", b"\x00\xff", "00ff"),
        ("kafka.serializer.LongDecoder", struct.pack(">q", -5), "-5"),
        ("binascii:hexlify", b"a", b"61"),
    ],
)
def test_decoder_is_found_by_name(name, data, shown):
    assert named_decoder(name)(data) == shown


@pytest.mark.parametrize("name", ["nothing", "no.such.module:f", "json:nothing"])
def test_unknown_decoder_is_refused(name):
    with pytest.raises(ConfigError):
        named_decoder(name)


def test_committed_offset_is_decoded():
    key = struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", 3)
    for version, middle, tail in ((1, b"", 16), (2, b"", 8), (3, struct.pack(">i", -1), 8)):
        for metadata, shown in (("", "42"), ("m", "42:m")):
            value = struct.pack(">hq", version, 42) + middle + text(metadata) + bytes(tail)
            assert decode_offsets(key, value) == ("offset::g:t:3", shown)


def test_group_is_decoded():
    assignment = struct.pack(">hi", 0, 1) + text("t") + struct.pack(">iii", 2, 0, 1) + blob(b"\xab")
    value = (
        struct.pack(">h", 1)
        + text("consumer")
        + struct.pack(">i", 7)
        + text("range")
        + text("m-1")
        + struct.pack(">i", 1)
        + text("m-1")
        + text("client")
        + text("/127.0.0.1")
        + struct.pack(">ii", 60000, 10000)
        + blob(b"sub")
        + blob(assignment)
    )
    key, shown = decode_offsets(struct.pack(">h", 2) + text("g"), value)
    assert key == '{"metadata":"g"}'
    assert shown == (
        '{"protocolType":"consumer","protocol":"range","generationId":7,'
        '"assignment":"{m-1=[t-0, t-1]:AB}"}'
    )


@pytest.mark.parametrize("key", [None, b"", b"\x00\x09", b"\x00\x01\x00\x09a"])
def test_invalid_key_of_offsets_topic_is_refused(key):
    with pytest.raises(ValueError):
        decode_offsets(key, b"\x00\x01")
