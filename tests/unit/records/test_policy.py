"""Record sets that each version of a produce request may contain."""

import pytest

from tests.support.message_sets import message_set
from zkbroker.errors import CorruptMessage, UnsupportedCompressionType
from zkbroker.records import Codec
from zkbroker.records.policy import AppendPolicy, check_produce


def test_version_3_and_later_take_one_batch_of_magic_2():
    for version in range(9):
        check_produce(message_set(2, 2), version)
    mixed = message_set(0, 2) + message_set(1, 2)
    for data in (b"", mixed, message_set(1, 2), message_set(2, 1) * 2, message_set(2, 1)[:-1]):
        for version in (0, 1, 2):
            check_produce(data, version)
        with pytest.raises(CorruptMessage, match="version 3 or later"):
            check_produce(data, 3)


def test_zstd_needs_version_7():
    packed = message_set(2, 2, codec=Codec.ZSTD)
    check_produce(packed, 7)
    with pytest.raises(UnsupportedCompressionType):
        check_produce(packed, 6)


@pytest.mark.parametrize(
    ("policy", "plain"),
    [
        (AppendPolicy(), True),
        (AppendPolicy(message_format=2, codec=Codec.NONE), True),
        (AppendPolicy(message_format=1), False),
        (AppendPolicy(codec=Codec.GZIP), False),
        (AppendPolicy(timestamp_type=1), False),
    ],
)
def test_policy_stores_plain_batches_if_it_changes_nothing(policy, plain):
    assert bool(policy.plain_magics & 1 << 2) is plain
