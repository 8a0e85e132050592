"""Requests of which nothing is done are answered with their error, in every version."""

import pytest

from zkbroker.broker.refusals import refusal
from zkbroker.errors import ErrorCode
from zkbroker.protocol import ApiKey, decode_response, encode_response
from zkbroker.protocol.api import BROKER_VERSIONS
from zkbroker.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestTopic,
)
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.transactions import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnTopicPartitions,
)
from zkbroker.protocol.messages.write_txn_markers import TxnMarker

NUMBERS = [3, 0]
CODE = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

REQUESTS = [
    ProduceRequest(
        None, 1, 1, [ProduceRequestTopic("t", [ProduceRequestPartition(n) for n in NUMBERS])]
    ),
    FetchRequest(
        topics=[FetchRequestTopic("t", [FetchRequestPartition(n, max_bytes=1) for n in NUMBERS])]
    ),
    ListOffsetsRequest(
        topics=[ListOffsetsRequestTopic("t", [ListOffsetsRequestPartition(n) for n in NUMBERS])]
    ),
    OffsetCommitRequest(
        "g",
        topics=[OffsetCommitRequestTopic("t", [OffsetCommitRequestPartition(n) for n in NUMBERS])],
    ),
    OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", NUMBERS)]),
    AddPartitionsToTxnRequest("id", 1, 0, [TxnTopicPartitions("t", NUMBERS)]),
    TxnOffsetCommitRequest(
        "id",
        "g",
        1,
        0,
        [
            TxnOffsetCommitRequestTopic(
                "t", [TxnOffsetCommitRequestPartition(n, 1) for n in NUMBERS]
            )
        ],
    ),
]
FOR_ALL = [
    InitProducerIdRequest("id", 1),
    AddOffsetsToTxnRequest("id", 1, 0, "g"),
    EndTxnRequest("id", 1, 0, True),
]


def each_version(requests):
    return [
        pytest.param(request, version, id=f"{request.api_key.name}-{version}")
        for request in requests
        for version in range(
            BROKER_VERSIONS[request.api_key][0], BROKER_VERSIONS[request.api_key][1] + 1
        )
    ]


def told(request, version):
    """What a client reads of the refusal."""
    answer = refusal(request, version, CODE)
    parts = encode_response(1, answer, version)
    return decode_response(request.api_key, version, b"".join(parts)[4:])[1]


@pytest.mark.parametrize(("request_", "version"), each_version(REQUESTS))
def test_refusal_holds_an_error_per_partition_or_one_in_all(request_, version):
    found = told(request_, version)
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
    assert told(request_, version).error_code == CODE


def test_each_marker_is_refused():
    request = WriteTxnMarkersRequest(
        [TxnMarker(pid, 0, True, [TxnTopicPartitions("t", NUMBERS)], 0) for pid in (1, 2)]
    )
    found = told(request, 0)
    assert [
        (each.producer_id, [p.error_code for t in each.topics for p in t.partitions])
        for each in found.markers
    ] == [(1, [CODE, CODE]), (2, [CODE, CODE])]


def test_offset_fetch_of_all_partitions_is_refused_as_a_whole():
    assert told(OffsetFetchRequest("g", None), 5).error_code == CODE


def test_no_refusal_without_error_fields():
    assert refusal(ProduceRequest(None, 0, 1, []), 7, CODE) is None
    assert refusal(MetadataRequest([]), 5, CODE) is None
    assert ApiKey.METADATA in BROKER_VERSIONS
