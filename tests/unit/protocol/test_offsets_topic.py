from dataclasses import replace
from random import Random

import pytest

from tests.support.wire_messages import random_message
from zkbroker.protocol import MalformedFrame, codec
from zkbroker.protocol.offsets_topic import (
    GroupKey,
    GroupMemberValue,
    GroupValue,
    OffsetKey,
    OffsetValue,
    decode_group,
    decode_key,
    decode_offset,
    encode_group,
    encode_key,
    encode_offset,
)


def test_keys_have_genuine_bytes():
    assert encode_key(OffsetKey("g", "t", 3)) == bytes.fromhex("0001 000167 000174 00000003")
    assert encode_key(GroupKey("g")) == bytes.fromhex("0002 000167")


def test_keys_of_known_versions_are_decoded():
    for version in ("0000", "0001"):
        key = decode_key(bytes.fromhex(f"{version} 000167 000174 00000003"))
        assert key == OffsetKey("g", "t", 3)
    assert decode_key(bytes.fromhex("0002 000167")) == GroupKey("g")
    assert decode_key(bytes.fromhex("0003 000167")) is None


def test_only_offset_with_leader_epoch_is_written_in_version_3():
    value = OffsetValue(offset=5, metadata="m", commit_timestamp_ms=1)
    without = "0001 0000000000000005 00016d 0000000000000001 ffffffffffffffff"
    assert encode_offset(value) == bytes.fromhex(without)
    with_epoch = "0003 0000000000000005 00000002 00016d 0000000000000001"
    assert encode_offset(replace(value, leader_epoch=2)) == bytes.fromhex(with_epoch)


def test_expiry_takes_precedence_over_leader_epoch():
    value = OffsetValue(5, 2, "m", 1, expire_timestamp_ms=9)
    assert decode_offset(encode_offset(value)).expire_timestamp_ms == 9


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("0000 0000000000000005 00016d 0000000000000007", {}),
        (
            "0001 0000000000000005 00016d 0000000000000007 0000000000000009",
            {"expire_timestamp_ms": 9},
        ),
        ("0002 0000000000000005 00016d 0000000000000007", {}),
        ("0003 0000000000000005 00000002 00016d 0000000000000007", {"leader_epoch": 2}),
    ],
)
def test_offset_values_of_every_version_are_decoded(data, expected):
    value = OffsetValue(5, metadata="m", commit_timestamp_ms=7, **expected)
    assert decode_offset(bytes.fromhex(data)) == value


def test_group_has_genuine_bytes():
    member = GroupMemberValue("m", None, "c", "/h", 60000, 10000, b"S", b"A")
    value = GroupValue("consumer", 4, "range", "m", 8, [member])
    assert encode_group(value) == bytes.fromhex(
        "0002 0008636f6e73756d6572 00000004 000572616e6765 00016d 0000000000000008"
        " 00000001 00016d 000163 00022f68 0000ea60 00002710 0000000153 0000000141"
    )


@pytest.mark.parametrize("version", range(4))
def test_groups_of_every_version_are_decoded(version):
    chance = Random(version)
    for _ in range(30):
        value = random_message(GroupValue, version, chance)
        written = version.to_bytes(2, "big") + codec.encode_bytes(value, version)
        assert decode_group(written) == value


@pytest.mark.parametrize("decoder", [decode_offset, decode_group])
@pytest.mark.parametrize("data", ["", "00", "0004", "ffff", "0001"])
def test_invalid_value_is_malformed(decoder, data):
    with pytest.raises(MalformedFrame):
        decoder(bytes.fromhex(data))


@pytest.mark.parametrize("data", ["", "00", "0001", "0001000167000174"])
def test_invalid_key_is_malformed(data):
    with pytest.raises(MalformedFrame):
        decode_key(bytes.fromhex(data))
