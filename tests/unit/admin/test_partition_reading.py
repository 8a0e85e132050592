"""Entries of a partition, as tools read them."""

import pytest

from tests.support.stored_partitions import Stored, StoredCluster
from zkbroker.admin import partition_reading
from zkbroker.admin.partition_reading import read_entries
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, UnsupportedVersion
from zkbroker.records import encode_message_set

KEY = ("t", 0)


def batch(offset, count=1, size=10):
    records = [(None, b"x" * size, 1, ()) for _ in range(count)]
    return encode_message_set(records, base_offset=offset)


def offsets(cluster, start, end):
    return [
        (each.head.base_offset, each.head.last_offset, len(each.data))
        for each in read_entries(cluster, KEY, start, end)
    ]


def test_whole_entries_come_in_order_for_any_fetch_size(monkeypatch):
    entries = [batch(0, 2), batch(2), batch(7, 3, size=5000), batch(10)]
    cluster = StoredCluster({KEY: Stored(entries)})
    wanted = [(0, 1), (2, 2), (7, 9), (10, 10)]
    sizes = [len(each) for each in entries]
    for limit in (1, 100, 200, 16_000, 1 << 20):
        monkeypatch.setattr(partition_reading, "FETCH_BYTES", limit)
        found = offsets(cluster, 0, 11)
        assert found == [(*span, size) for span, size in zip(wanted, sizes, strict=True)]


def test_reading_starts_within_batch_and_stops_before_end():
    cluster = StoredCluster({KEY: Stored([batch(0, 5), batch(5), batch(6)])})
    assert [each[:2] for each in offsets(cluster, 3, 6)] == [(0, 4), (5, 5)]
    assert offsets(cluster, 6, 6) == []


def test_gap_at_end_of_log_ends_reading():
    cluster = StoredCluster({KEY: Stored([batch(0)])})
    assert [each[:2] for each in offsets(cluster, 0, 9)] == [(0, 0)]


def test_moved_leader_is_asked_again_for_a_bounded_time(monkeypatch):
    cluster = StoredCluster({KEY: Stored([batch(0)])})
    cluster.errors = [ErrorCode.NOT_LEADER_FOR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE]
    assert len(offsets(cluster, 0, 1)) == 1
    assert cluster.refreshed == 2
    monkeypatch.setattr(partition_reading, "WAIT_S", 0.0)
    cluster.errors = [ErrorCode.NOT_LEADER_FOR_PARTITION] * 2
    with pytest.raises(ProtocolError) as raised:
        offsets(cluster, 0, 1)
    assert raised.value.code is ErrorCode.NOT_LEADER_FOR_PARTITION


def test_permanent_error_is_not_retried():
    cluster = StoredCluster({KEY: Stored([batch(0)])})
    cluster.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(ProtocolError) as raised:
        offsets(cluster, 0, 1)
    assert raised.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert cluster.refreshed == 0


def test_partition_without_leader_is_named(monkeypatch):
    monkeypatch.setattr(partition_reading, "WAIT_S", 0.0)
    cluster = StoredCluster({})
    with pytest.raises(ProtocolError, match="t-0 has no leader"):
        offsets(cluster, 0, 1)


def test_broker_before_0_11_is_refused():
    cluster = StoredCluster({KEY: Stored([batch(0)])}, fetch_version=3)
    with pytest.raises(UnsupportedVersion, match=r"older than 0\.11"):
        offsets(cluster, 0, 1)


def test_entry_larger_than_fetch_size_is_refused(monkeypatch):
    stored = Stored([batch(0, size=500)])
    monkeypatch.setattr(stored, "read", lambda offset, size: stored.entries[0][:100])
    with pytest.raises(ClientError, match="entry at offset 0 is larger"):
        offsets(StoredCluster({KEY: stored}), 0, 1)
