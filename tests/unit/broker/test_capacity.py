import pytest

from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.errors import ErrorCode, ProtocolError


def test_the_limit_leaves_descriptors_for_connections_and_reads() -> None:
    assert PartitionCapacity(256, lambda: 1024).limit == (1024 - 128 - 256) // 3
    assert PartitionCapacity(10, lambda: 100_000).limit == (100_000 - 12_500 - 30) // 3
    assert PartitionCapacity(256, lambda: 20).limit == 0


def test_partitions_are_counted_for_each_broker_that_is_to_hold_more() -> None:
    capacity = PartitionCapacity(1, lambda: 64 + 3 + 30)
    assert capacity.limit == 10
    held = [(1,)] * 8 + [(2,)] * 10
    capacity.check(held, [(1,), (1,)])
    with pytest.raises(ProtocolError, match="Broker 1 would hold 11 partitions") as caught:
        capacity.check(held, [(1,)] * 3)
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS
    with pytest.raises(ProtocolError, match="Broker 2"):
        capacity.check(held, [(3, 2)])
