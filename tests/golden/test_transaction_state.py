"""Records of `__transaction_state` from genuine brokers, byte for byte."""

from pathlib import Path

import pytest

from tests.support.logs import started
from tests.support.stored_partitions import Stored, StoredCluster
from zkbroker.admin.transactional_ids import list_ids
from zkbroker.coordinator.transactions.transaction import TransactionMetadata
from zkbroker.log import TopicPartition
from zkbroker.protocol.transaction_topic import (
    TransactionState,
    decode_transaction,
    decode_transaction_key,
    encode_transaction,
    encode_transaction_key,
)
from zkbroker.records import (
    ABORT,
    COMMIT,
    control_batch,
    encode_message_set,
    iter_entries,
    iter_records,
    read_marker,
    set_offsets,
)

STATE = sorted((Path(__file__).parent / "data" / "transactions" / "state").glob("*.log"))


@pytest.mark.parametrize("log", STATE, ids=lambda path: path.stem)
def test_transaction_records_round_trip(log):
    seen = set()
    for record in iter_records(log.read_bytes()):
        name = decode_transaction_key(record.key)
        assert name is not None
        assert encode_transaction_key(name) == bytes(record.key)
        if record.value is None:
            continue
        value = decode_transaction(record.value)
        assert encode_transaction(value) == bytes(record.value)
        assert (value.topics is None) == (value.state == TransactionState.EMPTY)
        seen.add(value.state)
    assert seen


def test_recording_has_every_transaction_state():
    states = {
        decode_transaction(record.value).state
        for log in STATE
        for record in iter_records(log.read_bytes())
        if record.value is not None
    }
    names = "EMPTY ONGOING PREPARE_COMMIT PREPARE_ABORT COMPLETE_COMMIT COMPLETE_ABORT"
    assert states >= {TransactionState[name] for name in names.split()}


def equals_stored(entry, original, data):
    """Check that our batch equals a stored one when it has its offset and leader epoch."""
    buffer = bytearray(data)
    set_offsets(buffer, 0, entry.base_offset, entry.partition_leader_epoch)
    return bytes(buffer) == original


def entries(path):
    data = path.read_bytes()
    for entry in iter_entries(data):
        yield entry, data[entry.position : entry.position + entry.size]


@pytest.mark.parametrize("log", STATE, ids=lambda path: path.stem)
def test_coordinator_writes_genuine_batches(log):
    for entry, original in entries(log):
        (record,) = iter_records(original)
        value = record.value
        if value is not None:
            stored = decode_transaction(value)
            ours = TransactionMetadata.from_value(stored).to_value()
            if stored.topics is not None:
                # Genuine brokers keep topics and partitions in hash maps.
                for topic in stored.topics:
                    topic.partitions.sort()
                stored.topics.sort(key=lambda topic: topic.topic)
            assert ours == stored
        data = encode_message_set([(record.key, value, record.timestamp, ())])
        assert equals_stored(entry, original, data)


def test_markers_equal_genuine_ones_byte_for_byte():
    kinds = set()
    for path in sorted((Path(__file__).parent / "data").rglob("*.log")):
        for entry, original in entries(path):
            if entry.magic != 2 or not entry.is_control:
                continue
            marker = read_marker(original)
            data = control_batch(
                marker.kind,
                producer_id=entry.producer_id,
                producer_epoch=entry.producer_epoch,
                timestamp_ms=entry.max_timestamp,
                coordinator_epoch=marker.coordinator_epoch,
            )
            assert equals_stored(entry, original, data), path
            assert len(original) == 78
            kinds.add(marker.kind)
    assert kinds == {ABORT, COMMIT}


def test_genuine_batches_give_genuine_transaction_index(tmp_path):
    stored = Path(__file__).parent / "data" / "transactions" / "partitions" / "tx-basic-0.log"
    with started(tmp_path) as manager:
        log = manager.get_or_create(TopicPartition("tx-basic", 0))
        log.append_as_follower(stored.read_bytes())
        path = log.path / f"{0:020d}.txnindex"
        assert path.read_bytes() == stored.with_suffix(".txnindex").read_bytes()
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset


@pytest.mark.parametrize("log", STATE, ids=lambda path: path.stem)
def test_tools_read_records_of_genuine_coordinators(log):
    """`zkbroker transactions list` reads these records only."""
    data = log.read_bytes()
    entries = [data[each.position : each.position + each.size] for each in iter_entries(data)]
    last = {decode_transaction_key(each.key): each.value for each in iter_records(data)}
    cluster = StoredCluster({("__transaction_state", 0): Stored(entries)})
    found = {each.name: each for each in list_ids(cluster)}
    assert set(found) == {name for name, value in last.items() if value is not None}
    assert found
    for name, each in found.items():
        value = decode_transaction(last[name])
        assert (each.producer_id, each.producer_epoch) == (value.producer_id, value.producer_epoch)
        assert (each.state, each.timeout_ms) == (value.state, value.timeout_ms)
        assert each.coordinator_epoch >= 0
