"""The answer to a request of which nothing is done: its error, where the version has a place.

    an error for all of it          the response's own `error_code`, since the version that has it
    an error for each partition     every partition that was named, with the error
    neither                         None: nobody can be told, and the connection is closed

Invariant: what is told is told of everything that was asked for, in the order of the request.
"""

from typing import Any

from zkbroker.errors import ErrorCode
from zkbroker.protocol import MESSAGES, ApiKey
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from zkbroker.protocol.messages.produce import ProduceResponsePartition, ProduceResponseTopic
from zkbroker.protocol.messages.transactions import TxnPartitionError, TxnTopicErrors
from zkbroker.protocol.messages.write_txn_markers import TxnMarkerResult, WriteTxnMarkersResponse

_ERROR_FOR_ALL_SINCE = {ApiKey.FETCH: 7, ApiKey.OFFSET_FETCH: 2}
"""Below that version the field is not sent."""

_BY_PARTITION: dict[ApiKey, tuple[Any, Any]] = {
    ApiKey.PRODUCE: (ProduceResponseTopic, ProduceResponsePartition),
    ApiKey.FETCH: (FetchResponseTopic, FetchResponsePartition),
    ApiKey.LIST_OFFSETS: (ListOffsetsResponseTopic, ListOffsetsResponsePartition),
    ApiKey.OFFSET_COMMIT: (OffsetCommitResponseTopic, OffsetCommitResponsePartition),
    ApiKey.OFFSET_FETCH: (OffsetFetchResponseTopic, OffsetFetchResponsePartition),
    ApiKey.ADD_PARTITIONS_TO_TXN: (TxnTopicErrors, TxnPartitionError),
    ApiKey.TXN_OFFSET_COMMIT: (TxnTopicErrors, TxnPartitionError),
}


def refusal(request: Any, version: int, code: ErrorCode) -> Any | None:
    """Return the response that refuses all of a request, None where there is none.

    Args:
        request: as it was decoded.
        version: of the request.
        code: why.
    """
    api = ApiKey(request.api_key)
    if api is ApiKey.PRODUCE and request.acks == 0:
        return None  # whoever asks so listens to nothing
    if api is ApiKey.WRITE_TXN_MARKERS:
        return WriteTxnMarkersResponse(
            [
                TxnMarkerResult(
                    each.producer_id,
                    _topics(TxnTopicErrors, TxnPartitionError, each.topics, code),
                )
                for each in request.markers
            ]
        )
    response: Any = MESSAGES[api][1]()
    if hasattr(response, "error_code") and version >= _ERROR_FOR_ALL_SINCE.get(api, 0):
        response.error_code = code
        return response
    classes = _BY_PARTITION.get(api)
    if classes is None:
        return None
    response.topics = _topics(*classes, request.topics or (), code)
    return response


def _topics(topic_class: Any, partition_class: Any, topics: Any, code: ErrorCode) -> list[Any]:
    return [
        topic_class(
            topic.topic,
            [
                partition_class(getattr(each, "partition", each), error_code=code)
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]
