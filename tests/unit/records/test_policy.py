"""What a produce request may hold, by its version."""

import pytest

from tests.support.message_sets import message_set
from zkbroker.errors import CorruptMessage, UnsupportedCompressionType
from zkbroker.records import Codec
from zkbroker.records.policy import AppendPolicy, check_produce


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_versions_hold_what_they_like(version):
    check_produce(message_set(0, 2) + message_set(1, 2), version)


def test_from_version_3_on_it_is_one_batch_of_magic_2():
    check_produce(message_set(2, 2), 3)
    for data in (b"", message_set(1, 2), message_set(2, 1) * 2, message_set(2, 1)[:-1]):
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
def test_plain_batches_are_stored_as_they_are_only_where_nothing_is_changed(policy, plain):
    assert policy.stores_plain_batches is plain
