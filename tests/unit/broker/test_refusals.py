"""Refusals of whole requests: the error stands in every version of the response."""

import pytest

from tests.support.permissions import topics_of
from zkbroker.broker.refusals import refusal
from zkbroker.errors import ErrorCode
from zkbroker.protocol import decode_response, encode_response
from zkbroker.protocol import messages as m
from zkbroker.protocol.api import BROKER_VERSIONS
from zkbroker.protocol.messages import fetch, list_offsets, offsets, produce
from zkbroker.protocol.messages import transactions as txn
from zkbroker.protocol.messages.write_txn_markers import TxnMarker

NUMBERS = [3, 0]
CODE = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def topic(*kinds):
    return topics_of(["t"], NUMBERS, *kinds)


LISTED = topic(list_offsets.ListOffsetsRequestTopic, list_offsets.ListOffsetsRequestPartition)
TXN_OFFSETS = topic(txn.TxnOffsetCommitRequestTopic, txn.TxnOffsetCommitRequestPartition, 1)
REQUESTS = [
    m.ProduceRequest(
        None, 1, 1, topic(produce.ProduceRequestTopic, produce.ProduceRequestPartition)
    ),
    m.FetchRequest(topics=topic(fetch.FetchRequestTopic, fetch.FetchRequestPartition)),
    m.ListOffsetsRequest(topics=LISTED),
    m.OffsetCommitRequest(
        "g", topics=topic(offsets.OffsetCommitRequestTopic, offsets.OffsetCommitRequestPartition)
    ),
    m.OffsetFetchRequest("g", [offsets.OffsetFetchRequestTopic("t", NUMBERS)]),
    m.AddPartitionsToTxnRequest("id", 1, 0, [txn.TxnTopicPartitions("t", NUMBERS)]),
    m.TxnOffsetCommitRequest("id", "g", 1, 0, TXN_OFFSETS),
]
FOR_ALL = [
    m.InitProducerIdRequest("id", 1),
    m.AddOffsetsToTxnRequest("id", 1, 0, "g"),
    m.EndTxnRequest("id", 1, 0, True),
]


def each_version(requests):
    return [
        pytest.param(request, version, id=f"{request.api_key.name}-{version}")
        for request in requests
        for low, high in [BROKER_VERSIONS[request.api_key]]
        for version in range(low, high + 1)
    ]


def refused(request, version):
    """Return the refusal as a client reads it."""
    answer = refusal(request, version, CODE)
    parts = encode_response(1, answer, version)
    return decode_response(request.api_key, version, b"".join(parts)[4:])[1]


@pytest.mark.parametrize(("request_", "version"), each_version(REQUESTS))
def test_refusal_holds_an_error_per_partition_or_one_in_all(request_, version):
    found = refused(request_, version)
    if getattr(found, "error_code", 0):
        assert found.error_code == CODE
        return
    (topic,) = found.topics
    assert topic.topic == "t"
    assert [(each.partition, each.error_code) for each in topic.partitions] == [
        (number, CODE) for number in NUMBERS
    ]


@pytest.mark.parametrize(("request_", "version"), each_version(FOR_ALL))
def test_refusal_uses_the_error_of_the_whole_response(request_, version):
    assert refused(request_, version).error_code == CODE


def test_each_marker_is_refused():
    request = m.WriteTxnMarkersRequest(
        [TxnMarker(pid, 0, True, [txn.TxnTopicPartitions("t", NUMBERS)], 0) for pid in (1, 2)]
    )
    found = refused(request, 0)
    assert [
        (each.producer_id, [p.error_code for t in each.topics for p in t.partitions])
        for each in found.markers
    ] == [(1, [CODE, CODE]), (2, [CODE, CODE])]


def test_offset_fetch_of_all_partitions_is_refused_as_a_whole():
    assert refused(m.OffsetFetchRequest("g", None), 5).error_code == CODE


def test_no_refusal_without_error_fields():
    assert refusal(m.ProduceRequest(None, 0, 1, []), 7, CODE) is None
    assert refusal(m.MetadataRequest([]), 5, CODE) is None
