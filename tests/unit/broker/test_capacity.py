import pytest

from tests.support.logs import TP, message_set, started
from tests.support.process import open_files
from zkbroker.broker.capacity import OF_A_PARTITION, PartitionCapacity
from zkbroker.errors import ErrorCode, ProtocolError


def test_partition_limit_leaves_descriptors_for_connections_and_reads():
    assert PartitionCapacity(256, lambda: 1024).limit == (1024 - 128 - 256) // 3
    assert PartitionCapacity(10, lambda: 100_000).limit == (100_000 - 12_500 - 30) // 3
    assert PartitionCapacity(256, lambda: 20).limit == 0


def test_capacity_is_checked_per_broker_with_new_partitions():
    capacity = PartitionCapacity(1, lambda: 64 + 3 + 30)
    assert capacity.limit == 10
    held = [(1,)] * 8 + [(2,)] * 10
    capacity.check(held, [(1,), (1,)])
    with pytest.raises(ProtocolError, match="Broker 1 would hold 11 partitions") as caught:
        capacity.check(held, [(1,)] * 3)
    assert caught.value.code is ErrorCode.INVALID_PARTITIONS
    with pytest.raises(ProtocolError, match="Broker 2"):
        capacity.check(held, [(3, 2)])


def test_partition_opens_as_many_files_as_counted(tmp_path):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        for number in range(200):
            written_at = 1_700_000_000_000 + number
            log.append_as_leader(message_set(1, size=5000, timestamp=written_at), leader_epoch=0)
        for offset in (0, 50, 150):
            log.read_bytes(offset, 100, end=200)
            assert log.offset_for_timestamp(1_700_000_000_000 + offset, 200) is not None
        assert len(open_files(log.path)) == OF_A_PARTITION
