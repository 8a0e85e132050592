"""Open transactions in logs: found, judged and aborted."""

import pytest

from tests.support.stored_partitions import Stored, StoredCluster
from tests.unit.admin.test_transactional_ids import cluster as with_ids
from zkbroker.admin.open_transactions import (
    Verdict,
    abort_by_marker,
    find_hanging,
    find_open,
    led_partitions,
)
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, UnknownTopicOrPartition
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import WriteTxnMarkersResponse
from zkbroker.protocol.messages.transactions import (
    TxnPartitionError,
    TxnTopicErrors,
    TxnTopicPartitions,
)
from zkbroker.protocol.messages.write_txn_markers import TxnMarkerResult
from zkbroker.protocol.transaction_topic import TransactionState, TransactionValue
from zkbroker.records import COMMIT, control_batch, encode_message_set

S = TransactionState
KEY = ("t", 0)


class Log(Stored):
    def send(self, producer=None, count=1, time_ms=1000, epoch=0):
        identity = {}
        if producer is not None:
            identity = {
                "producer_id": producer,
                "producer_epoch": epoch,
                "base_sequence": 0,
                "is_transactional": True,
            }
        records = [(None, b"x", time_ms, ()) for _ in range(count)]
        self.entries.append(encode_message_set(records, base_offset=self.end, **identity))
        return self

    def mark(self, producer):
        self.entries.append(
            control_batch(
                COMMIT,
                producer_id=producer,
                producer_epoch=0,
                timestamp_ms=9000,
                base_offset=self.end,
            )
        )
        return self


def ongoing(pid, state=S.ONGOING, partitions=(0,), topic="t"):
    return TransactionValue(
        pid, 0, 60_000, state, [TxnTopicPartitions(topic, list(partitions))], 2000, 1000
    )


def test_open_transactions_are_read_after_last_stable_offset():
    log = Log(last_stable_offset=1).send().send(1, 2).send(2).send().mark(2).send(1).send(3)
    stored = {KEY: log, ("u", 0): Log(last_stable_offset=0)}
    (first, third) = find_open(StoredCluster(stored), list(stored))
    assert (first.producer_id, first.first_offset, first.last_offset) == (1, 1, 6)
    assert (third.producer_id, third.first_offset, third.last_offset) == (3, 7, 7)
    assert (first.partition, first.leader, first.since_ms) == (KEY, 1, 1000)


def test_log_without_open_transactions_is_not_fetched():
    log = Log().send(1).mark(1)
    log.last_stable_offset = log.end
    stored = StoredCluster({KEY: log})
    assert find_open(stored, [KEY]) == []
    assert {each.api_key for each in stored.asked} == {ApiKey.LIST_OFFSETS}


def hanging_with(ids, *, now_ms=10_000_000, older_than_ms=1000):
    stored = with_ids(*ids)
    stored.stored[KEY] = Log().send(1)
    return find_hanging(stored, [KEY], older_than_ms=older_than_ms, now_ms=now_ms)


@pytest.mark.parametrize(
    ("ids", "verdict"),
    [
        ([], Verdict.HANGING),
        ([("x", ongoing(1))], Verdict.ONGOING),
        ([("x", ongoing(1, S.PREPARE_ABORT))], Verdict.ENDING),
        ([("x", ongoing(1, S.COMPLETE_COMMIT, ()))], Verdict.HANGING),
        ([("x", ongoing(1, partitions=(1,)))], Verdict.HANGING),
        ([("x", ongoing(2))], Verdict.HANGING),
    ],
)
def test_verdict_depends_on_state_of_coordinator(ids, verdict):
    (found,) = hanging_with(ids)
    assert found.verdict is verdict


def test_young_transaction_is_not_listed():
    assert hanging_with([], now_ms=1999) == []
    assert len(hanging_with([], now_ms=2000)) == 1


def end_after_fetch(stored, *, begin_next=False):
    """Let the first transaction in the log end once it was read, and the next one begin."""
    log = stored.stored[KEY] = Log().send(1)
    fetch = stored.answers[ApiKey.FETCH]

    def ended(request):
        answer = fetch(request)
        if request.topics[0].topic == "t" and log.last_stable_offset == 0:
            log.mark(1)
            log.last_stable_offset = log.end
            if begin_next:
                log.send(1)
        return answer

    stored.answers[ApiKey.FETCH] = ended


def test_transaction_that_ends_meanwhile_is_not_hanging():
    stored = with_ids(("x", ongoing(1, S.COMPLETE_COMMIT, ())))
    end_after_fetch(stored)
    assert find_hanging(stored, [KEY], older_than_ms=0, now_ms=5000) == []


def test_next_transaction_of_producer_is_not_aborted():
    stored = with_ids(("x", ongoing(1, S.COMPLETE_COMMIT, ())))
    end_after_fetch(stored, begin_next=True)
    markers = take_markers(stored)
    with pytest.raises(ClientError, match="begins at offset 0: open ones begin at 2"):
        abort_by_marker(stored, KEY, 0)
    assert markers == []


def take_markers(stored, code=ErrorCode.NONE):
    """Let a cluster answer WriteTxnMarkers with a code; return the list of its markers."""
    markers = []

    def answer(request):
        markers.extend(request.markers)
        errors = [TxnTopicErrors("t", [TxnPartitionError(0, code)])]
        return WriteTxnMarkersResponse([TxnMarkerResult(1, errors)])

    stored.answers[ApiKey.WRITE_TXN_MARKERS] = answer
    return markers


def stored_with(*ids):
    stored = with_ids(*ids)
    stored.stored[KEY] = Log().send(1, 3, epoch=6)
    return stored


def test_abort_marker_has_epoch_of_last_coordinator():
    stored = stored_with(("x", ongoing(1, S.COMPLETE_COMMIT, ())))
    markers = take_markers(stored)
    assert abort_by_marker(stored, KEY, 0).last_offset == 2
    (marker,) = markers
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (1, 6, False)
    assert marker.coordinator_epoch == 4  # of the id's last record
    assert marker.topics == [TxnTopicPartitions("t", [0])]


def test_unknown_producer_gets_highest_coordinator_epoch():
    stored = stored_with(("x", ongoing(9)))
    markers = take_markers(stored)
    abort_by_marker(stored, KEY, 0)
    abort_by_marker(stored, KEY, 0, coordinator_epoch=99)
    assert [each.coordinator_epoch for each in markers] == [7, 99]


@pytest.mark.parametrize(
    ("state", "message"),
    [(S.ONGOING, "transactions abort x"), (S.PREPARE_COMMIT, "decided.*--force")],
)
def test_transaction_known_to_coordinator_needs_force(state, message):
    stored = stored_with(("x", ongoing(1, state)))
    markers = take_markers(stored)
    with pytest.raises(ClientError, match=message):
        abort_by_marker(stored, KEY, 0)
    assert markers == []
    abort_by_marker(stored, KEY, 0, force=True)
    assert len(markers) == 1


def test_wrong_first_offset_lists_open_transactions():
    stored = stored_with()
    with pytest.raises(ClientError, match="begins at offset 1: open ones begin at 0"):
        abort_by_marker(stored, KEY, 1)
    stored.stored[KEY] = Log()
    with pytest.raises(ClientError, match="none is open in this partition"):
        abort_by_marker(stored, KEY, 0)


def test_refused_marker_is_raised():
    stored = stored_with()
    take_markers(stored, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    with pytest.raises(ProtocolError, match="give --coordinator-epoch"):
        abort_by_marker(stored, KEY, 0)
    take_markers(stored, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ProtocolError) as raised:
        abort_by_marker(stored, KEY, 0)
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_partitions_without_leader_are_listed_separately():
    stored = StoredCluster({KEY: Log(), ("t", 1): Log(), ("u", 0): Log()}, leaderless=[("t", 1)])
    assert led_partitions(stored) == ([("t", 0), ("u", 0)], [("t", 1)])
    assert led_partitions(stored, "t") == ([("t", 0)], [("t", 1)])
    with pytest.raises(UnknownTopicOrPartition):
        led_partitions(stored, "none")
