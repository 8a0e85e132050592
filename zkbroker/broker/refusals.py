"""The answer to a refused request, or to refused items of it.

    an error for all of it       the response's own `error_code`, since the version that has it
    an error for each item       every topic, group or resource of the request, with the error
    neither                      None: there is no field for an error, the connection is closed

Invariant: an answer has an error for every item of the request, in the same order.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from zkbroker.errors import ErrorCode
from zkbroker.protocol import MESSAGES, ApiKey
from zkbroker.protocol.messages.acls import CreatedAcl, DeletedAcls
from zkbroker.protocol.messages.configs import AlteredConfigs, DescribedConfigs
from zkbroker.protocol.messages.elect_preferred_leaders import ElectedPartition, ElectedTopic
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.groups import DeletedGroup, DescribedGroup
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.protocol.messages.metadata import MetadataTopic
from zkbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponsePartition,
    OffsetForLeaderEpochResponseTopic,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from zkbroker.protocol.messages.produce import ProduceResponsePartition, ProduceResponseTopic
from zkbroker.protocol.messages.topics import (
    CreatedPartitions,
    CreatedTopic,
    DeletedTopic,
    DeleteRecordsResponsePartition,
    DeleteRecordsResponseTopic,
)
from zkbroker.protocol.messages.transactions import TxnPartitionError, TxnTopicErrors
from zkbroker.protocol.messages.verify_transaction import VerificationResult
from zkbroker.protocol.messages.write_txn_markers import TxnMarkerResult

_ERROR_FOR_ALL_SINCE = {ApiKey.FETCH: 7, ApiKey.OFFSET_FETCH: 2}
"""The version from which on the field is sent."""

_TEXTS = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: (
        "Not authorized to access group: Group authorization failed."
    ),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}
"""The texts of genuine brokers for an error of the whole request."""


class Items(NamedTuple):
    """The field of a request with its items, and how to answer an error for one of them.

    Args:
        asked: field of the request.
        answered: field of the response.
        refuse: makes an item of the response from an item of the request and the error.
    """

    asked: str
    answered: str
    refuse: Callable[[Any, ErrorCode], Any]


def _partitions(topic_class: Any, partition_class: Any, **more: Any) -> Items:
    def refuse(topic: Any, code: ErrorCode) -> Any:
        return topic_class(
            topic.topic,
            [
                partition_class(partition=getattr(each, "partition", each), error_code=code, **more)
                for each in topic.partitions
            ],
        )

    return Items("topics", "topics", refuse)


_TXN_PARTITIONS = _partitions(TxnTopicErrors, TxnPartitionError)


def _changed_topics(answer_class: Any, if_denied: str) -> Items:
    def refuse(topic: Any, code: ErrorCode) -> Any:
        denied = code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return answer_class(topic.topic, code, if_denied if denied else None)

    return Items("topics", "topics", refuse)


def _resources(answer_class: Any) -> Items:
    def refuse(item: Any, code: ErrorCode) -> Any:
        return answer_class(code, None, item.resource_type, item.resource_name)

    return Items("resources", "resources", refuse)


def _marker(item: Any, code: ErrorCode) -> TxnMarkerResult:
    return TxnMarkerResult(
        item.producer_id, [_TXN_PARTITIONS.refuse(each, code) for each in item.topics]
    )


ITEMS: Mapping[ApiKey, Items] = {
    ApiKey.PRODUCE: _partitions(ProduceResponseTopic, ProduceResponsePartition),
    ApiKey.FETCH: _partitions(FetchResponseTopic, FetchResponsePartition, records=b""),
    ApiKey.LIST_OFFSETS: _partitions(ListOffsetsResponseTopic, ListOffsetsResponsePartition),
    ApiKey.METADATA: Items(
        "topics", "topics", lambda name, code: MetadataTopic(code, name, False, [])
    ),
    ApiKey.OFFSET_COMMIT: _partitions(OffsetCommitResponseTopic, OffsetCommitResponsePartition),
    ApiKey.OFFSET_FETCH: _partitions(OffsetFetchResponseTopic, OffsetFetchResponsePartition),
    ApiKey.DESCRIBE_GROUPS: Items(
        "groups", "groups", lambda name, code: DescribedGroup(code, name)
    ),
    ApiKey.CREATE_TOPICS: _changed_topics(CreatedTopic, "Authorization failed."),
    ApiKey.DELETE_TOPICS: Items("topics", "topics", DeletedTopic),
    ApiKey.DELETE_RECORDS: _partitions(DeleteRecordsResponseTopic, DeleteRecordsResponsePartition),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _partitions(
        OffsetForLeaderEpochResponseTopic, OffsetForLeaderEpochResponsePartition
    ),
    ApiKey.ADD_PARTITIONS_TO_TXN: _TXN_PARTITIONS,
    ApiKey.WRITE_TXN_MARKERS: Items("markers", "markers", _marker),
    ApiKey.TXN_OFFSET_COMMIT: _TXN_PARTITIONS,
    ApiKey.CREATE_ACLS: Items(
        "creations", "results", lambda item, code: CreatedAcl(code, _TEXTS.get(code))
    ),
    ApiKey.DELETE_ACLS: Items(
        "filters", "results", lambda item, code: DeletedAcls(code, _TEXTS.get(code))
    ),
    ApiKey.DESCRIBE_CONFIGS: _resources(DescribedConfigs),
    ApiKey.ALTER_CONFIGS: _resources(AlteredConfigs),
    ApiKey.CREATE_PARTITIONS: _changed_topics(
        CreatedPartitions, "The topic authorization is failed."
    ),
    ApiKey.DELETE_GROUPS: Items("groups", "groups", DeletedGroup),
    ApiKey.ELECT_PREFERRED_LEADERS: _partitions(ElectedTopic, ElectedPartition),
    ApiKey.VERIFY_TRANSACTION: Items(
        "transactions",
        "results",
        lambda item, code: VerificationResult(item.transactional_id, code),
    ),
}
"""The APIs whose requests name items, each with its own error in the answer."""

_NEEDS_MORE = frozenset({ApiKey.METADATA})
"""The API whose answer clients need even if it has errors: for the list of brokers."""


def refusal(request: Any, version: int, code: ErrorCode, *, by_item: bool = False) -> Any | None:
    """Return the response that refuses a whole request, None if there is none.

    Args:
        request: the decoded request.
        version: of the request.
        code: the error.
        by_item: whether to set the error in each item although the response has one for all of it.
    """
    api = ApiKey(request.api_key)
    if api is ApiKey.PRODUCE and request.acks == 0:
        return None  # acks=0: the client reads no answer
    response: Any = MESSAGES[api][1]()
    for_all = hasattr(response, "error_code") and version >= _ERROR_FOR_ALL_SINCE.get(api, 0)
    items = ITEMS.get(api)
    asked = () if items is None else getattr(request, items.asked) or ()
    if for_all and not (by_item and asked):
        response.error_code = code
        if hasattr(response, "error_message"):
            response.error_message = _TEXTS.get(code, code.name)
        return response
    if items is None or api in _NEEDS_MORE:
        return None
    setattr(response, items.answered, refused_items(api, asked, code))
    return response


def refused_items(api: ApiKey, asked: Iterable[Any], code: ErrorCode) -> list[Any]:
    """Return the items of the answer for refused items of a request."""
    refuse = ITEMS[api].refuse
    return [refuse(each, code) for each in asked]
