"""Transactional ids read from their topic, and the abort of their transactions."""

import pytest

from tests.support.stored_partitions import BROKER, Stored, StoredCluster
from zkbroker.admin.transactional_ids import abort, describe_id, list_ids, state_name
from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import ClientError, ErrorCode, ProtocolError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import InitProducerIdResponse
from zkbroker.protocol.messages.transactions import TxnTopicPartitions
from zkbroker.protocol.transaction_topic import (
    TRANSACTION_TOPIC,
    TransactionState,
    TransactionValue,
    encode_transaction,
    encode_transaction_key,
)
from zkbroker.records import encode_message_set, set_offsets

S = TransactionState
COUNT = 3


def value(state, pid=5, epoch=1):
    topics = [TxnTopicPartitions("b", [1, 0]), TxnTopicPartitions("a", [2])]
    return TransactionValue(
        pid, epoch, 60_000, state, topics if state is S.ONGOING else [], 2000, 1000
    )


def cluster(*records):
    """A cluster whose topic holds records of (id, value), None for a tombstone."""
    stored = {(TRANSACTION_TOPIC, number): Stored() for number in range(COUNT)}
    for name, latest in records:
        partition = stored[TRANSACTION_TOPIC, key_partition(name, COUNT)]
        record = (
            encode_transaction_key(name),
            None if latest is None else encode_transaction(latest),
            1,
            (),
        )
        data = bytearray(encode_message_set([record]))
        set_offsets(data, 0, partition.end, 4)
        partition.entries.append(bytes(data))
    return StoredCluster(stored)


def test_last_record_of_each_id_counts():
    found = list_ids(
        cluster(
            ("x", value(S.EMPTY)),
            ("gone", value(S.EMPTY)),
            ("y", value(S.PREPARE_COMMIT)),
            ("x", value(S.ONGOING, epoch=2)),
            ("gone", None),
        )
    )
    assert [(each.name, each.state, each.producer_epoch, each.open) for each in found] == [
        ("x", S.ONGOING, 2, True),
        ("y", S.PREPARE_COMMIT, 1, True),
    ]
    assert found[0].partitions == (("a", 2), ("b", 0), ("b", 1))
    assert (found[0].coordinator, found[0].coordinator_epoch) == (BROKER, 4)


def test_missing_topic_means_no_transactional_ids():
    assert list_ids(StoredCluster({})) == []
    with pytest.raises(ClientError, match=r"no transactional id 'x'.*transactions list"):
        describe_id(StoredCluster({}), "x")


def test_unknown_id_is_reported():
    known = cluster(("x", value(S.EMPTY)))
    assert describe_id(known, "x").state is S.EMPTY
    with pytest.raises(ClientError, match="no transactional id 'y'"):
        describe_id(known, "y")


def test_state_names_match_genuine_tools():
    assert [state_name(each) for each in (S.EMPTY, S.PREPARE_ABORT, S.COMPLETE_COMMIT)] == [
        "Empty",
        "PrepareAbort",
        "CompleteCommit",
    ]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (S.EMPTY, r"no transaction to abort \(state Empty\)"),
        (S.COMPLETE_ABORT, "no transaction to abort"),
        (S.PREPARE_COMMIT, "is being committed"),
        (S.PREPARE_ABORT, "is being aborted"),
    ],
)
def test_abort_without_ongoing_transaction_is_refused(state, message):
    asked = cluster(("x", value(state)))
    with pytest.raises(ClientError, match=message):
        abort(asked, "x")
    assert not [each for each in asked.asked if each.api_key == ApiKey.INIT_PRODUCER_ID]


def test_abort_retries_until_markers_are_written():
    asked = cluster(("x", value(S.ONGOING)))
    codes = [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NONE,
    ]
    asked.answers[ApiKey.INIT_PRODUCER_ID] = lambda _: InitProducerIdResponse(
        error_code=codes.pop(0)
    )
    assert abort(asked, "x").producer_id == 5
    assert codes == []
    begun = [each for each in asked.asked if each.api_key == ApiKey.INIT_PRODUCER_ID]
    assert {(each.transactional_id, each.transaction_timeout_ms) for each in begun} == {
        ("x", 60_000)
    }


def test_abort_raises_last_error_after_timeout():
    asked = cluster(("x", value(S.ONGOING)))
    for code in (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        asked.answers[ApiKey.INIT_PRODUCER_ID] = lambda _, code=code: InitProducerIdResponse(
            error_code=code
        )
        with pytest.raises(ProtocolError) as raised:
            abort(asked, "x", timeout_s=0)
        assert raised.value.code is code
