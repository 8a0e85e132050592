import pytest

from zkbroker.coordinator.stored_log import key_partition


def test_smallest_hash_maps_to_partition_0_as_in_genuine_brokers():
    assert key_partition("polygenelubricants", 50) == 0


@pytest.mark.parametrize("group", ["wire-group", "g", "ünïcode", "a" * 200])
def test_every_group_maps_to_partition(group):
    assert 0 <= key_partition(group, 50) < 50
