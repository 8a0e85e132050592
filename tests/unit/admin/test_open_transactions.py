"""Transactions that are open in logs, and what becomes of them."""

from types import SimpleNamespace

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
from zkbroker.records import ABORT, COMMIT, control_batch, encode_message_set

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

    def mark(self, producer, kind=COMMIT):
        self.entries.append(
            control_batch(
                kind,
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


def test_what_lies_between_the_two_ends_is_read():
    log = Log(last_stable_offset=2)
    log.send().send(8).mark(8, ABORT)  # below the last stable offset in a real log
    log.entries.pop(0)
    log = Log(last_stable_offset=1).send().send(1, 2).send(2).send().mark(2).send(1).send(3)
    (first, third) = find_open(StoredCluster({KEY: log, ("u", 0): Log(last_stable_offset=0)}))
    assert (first.producer_id, first.first_offset, first.last_offset) == (1, 1, 6)
    assert (third.producer_id, third.first_offset, third.last_offset) == (3, 7, 7)
    assert (first.partition, first.leader, first.since_ms) == (KEY, 1, 1000)


def test_a_log_without_open_transactions_is_not_read():
    log = Log().send(1).mark(1)
    log.last_stable_offset = log.end
    stored = StoredCluster({KEY: log})
    assert find_open(stored) == []
    assert {each.api_key for each in stored.asked} == {ApiKey.LIST_OFFSETS}


def hanging(ids, *, now_ms=10_000_000, older_than_ms=1000):
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
def test_it_hangs_when_no_coordinator_has_it(ids, verdict):
    (found,) = hanging(ids)
    assert found.verdict is verdict


def test_a_young_one_is_left_alone():
    assert hanging([], now_ms=1999) == []
    assert len(hanging([], now_ms=2000)) == 1


def test_one_that_ends_while_coordinators_are_asked_is_none():
    stored = with_ids(("x", ongoing(1, S.COMPLETE_COMMIT, ())))
    log = stored.stored[KEY] = Log().send(1)
    fetch = stored.answers[ApiKey.FETCH]

    def ended(request):
        answer = fetch(request)
        if request.topics[0].topic == "t":
            log.mark(1)
            log.last_stable_offset = log.end
        return answer

    stored.answers[ApiKey.FETCH] = ended
    assert find_hanging(stored, [KEY], older_than_ms=0, now_ms=5000) == []


def marked(stored, code=ErrorCode.NONE):
    """Have a cluster take markers; returns those that it took."""
    taken = []

    def answer(request):
        taken.extend(request.markers)
        errors = [TxnTopicErrors("t", [TxnPartitionError(0, code)])]
        return WriteTxnMarkersResponse([TxnMarkerResult(1, errors)])

    stored.answers[ApiKey.WRITE_TXN_MARKERS] = answer
    return taken


def stored_with(*ids):
    stored = with_ids(*ids)
    stored.stored[KEY] = Log().send(1, 3, epoch=6)
    return stored


def test_a_hanging_one_gets_a_marker_under_the_epoch_that_its_coordinator_has():
    stored = stored_with(("x", ongoing(1, S.COMPLETE_COMMIT, ())))
    taken = marked(stored)
    assert abort_by_marker(stored, KEY, 0).last_offset == 2
    (marker,) = taken
    assert (marker.producer_id, marker.producer_epoch, marker.committed) == (1, 6, False)
    assert marker.coordinator_epoch == 4  # of the id's last record
    assert marker.topics == [TxnTopicPartitions("t", [0])]


def test_one_of_an_unknown_producer_gets_the_highest_epoch():
    stored = stored_with(("x", ongoing(9)))
    taken = marked(stored)
    abort_by_marker(stored, KEY, 0)
    abort_by_marker(stored, KEY, 0, coordinator_epoch=99)
    assert [each.coordinator_epoch for each in taken] == [7, 99]


@pytest.mark.parametrize(
    ("state", "said"),
    [(S.ONGOING, "transactions abort x"), (S.PREPARE_COMMIT, "decided.*--force")],
)
def test_what_a_coordinator_has_is_not_ended_behind_its_back(state, said):
    stored = stored_with(("x", ongoing(1, state)))
    taken = marked(stored)
    with pytest.raises(ClientError, match=said):
        abort_by_marker(stored, KEY, 0)
    assert taken == []
    abort_by_marker(stored, KEY, 0, force=True)
    assert len(taken) == 1


def test_an_offset_at_which_none_begins_names_those_that_are_open():
    stored = stored_with()
    with pytest.raises(ClientError, match="begins at offset 1: open ones begin at 0"):
        abort_by_marker(stored, KEY, 1)
    stored.stored[KEY] = Log()
    with pytest.raises(ClientError, match="none is open in this partition"):
        abort_by_marker(stored, KEY, 0)


def test_a_refusal_says_what_to_give():
    stored = stored_with()
    marked(stored, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    with pytest.raises(ProtocolError, match="give --coordinator-epoch"):
        abort_by_marker(stored, KEY, 0)
    marked(stored, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(ProtocolError) as raised:
        abort_by_marker(stored, KEY, 0)
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_partitions_without_a_leader_are_listed_apart():
    stored = StoredCluster({KEY: Log(), ("t", 1): Log(), ("u", 0): Log()})
    known = stored.known_partitions

    def without_one(topic):
        return tuple(
            SimpleNamespace(partition=each.partition, leader=None if each.partition else 1)
            for each in known(topic)
        )

    stored.known_partitions = without_one
    assert led_partitions(stored) == ([("t", 0), ("u", 0)], [("t", 1)])
    assert led_partitions(stored, "t") == ([("t", 0)], [("t", 1)])
    with pytest.raises(UnknownTopicOrPartition):
        led_partitions(stored, "none")
