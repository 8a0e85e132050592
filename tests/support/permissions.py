"""Requests that need each permission of their API: of items `allowed` and `denied`."""

from collections.abc import Iterable
from typing import Any

from zkbroker.protocol import ApiKey
from zkbroker.protocol import messages as m
from zkbroker.protocol.messages.acls import AclCreation, AclFilter
from zkbroker.protocol.messages.configs import AlterConfigsResource, DescribeConfigsResource
from zkbroker.protocol.messages.elect_preferred_leaders import ElectPreferredLeadersTopic
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from zkbroker.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from zkbroker.protocol.messages.offsets import (
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequestTopic,
)
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.protocol.messages.topics import (
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
    NewPartitions,
    NewTopic,
)
from zkbroker.protocol.messages.transactions import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnTopicPartitions,
)
from zkbroker.protocol.messages.verify_transaction import VerifiedTransaction
from zkbroker.protocol.messages.write_txn_markers import TxnMarker
from zkbroker.records.layout import ATTRIBUTES_V2_LOW_AT, MAGIC_AT, PRODUCER_AT, TRANSACTIONAL_BIT

NAMES = ["allowed", "denied"]
_CONFIGURED = [(2, "allowed"), (2, "denied"), (4, "denied")]


def named(item: Any) -> str:
    """Return the name in an item of a request."""
    if isinstance(item, str):
        return item
    for field in ("topic", "resource_name", "transactional_id"):
        if hasattr(item, field):
            return str(getattr(item, field))
    return repr(item)


def batch(*, transactional: bool) -> bytes:
    """As much of a batch of an idempotent producer as its permissions depend on."""
    data = bytearray(61)
    data[MAGIC_AT] = 2
    data[PRODUCER_AT : PRODUCER_AT + 8] = (7).to_bytes(8, "big")
    if transactional:
        data[ATTRIBUTES_V2_LOW_AT] = TRANSACTIONAL_BIT
    return bytes(data)


def topics_of(
    names: Iterable[str], numbers: Iterable[int], topic: Any, partition: Any, *more: Any
) -> list[Any]:
    """Topics of a request, each with these partitions and further fields of a partition."""
    return [topic(name, [partition(number, *more) for number in numbers]) for name in names]


def _topics(topic: Any, partition: Any, *more: Any) -> list[Any]:
    return topics_of(NAMES, [0], topic, partition, *more)


def _produce(transactional_id: str | None) -> m.ProduceRequest:
    data = batch(transactional=transactional_id is not None)
    topics = _topics(ProduceRequestTopic, ProduceRequestPartition, data)
    return m.ProduceRequest(transactional_id, 1, 1000, topics)


def _fetch(replica_id: int) -> m.FetchRequest:
    return m.FetchRequest(replica_id, topics=_topics(FetchRequestTopic, FetchRequestPartition))


_LISTED = _topics(ListOffsetsRequestTopic, ListOffsetsRequestPartition)
_TXN = [TxnTopicPartitions(name, [0]) for name in NAMES]
_TXN_OFFSETS = _topics(TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition, 1)

SAMPLES: dict[ApiKey, list[Any]] = {
    ApiKey.PRODUCE: [_produce(None), _produce("tx")],
    ApiKey.FETCH: [_fetch(-1), _fetch(1)],
    ApiKey.LIST_OFFSETS: [m.ListOffsetsRequest(each, topics=_LISTED) for each in (-1, 1)],
    ApiKey.METADATA: [m.MetadataRequest(NAMES), m.MetadataRequest(None)],
    ApiKey.LEADER_AND_ISR: [m.LeaderAndIsrRequest()],
    ApiKey.STOP_REPLICA: [m.StopReplicaRequest()],
    ApiKey.UPDATE_METADATA: [m.UpdateMetadataRequest()],
    ApiKey.CONTROLLED_SHUTDOWN: [m.ControlledShutdownRequest(1)],
    ApiKey.OFFSET_COMMIT: [
        m.OffsetCommitRequest(
            "g", topics=_topics(OffsetCommitRequestTopic, OffsetCommitRequestPartition, 1)
        )
    ],
    ApiKey.OFFSET_FETCH: [
        m.OffsetFetchRequest("g", [OffsetFetchRequestTopic(name, [0]) for name in NAMES]),
        m.OffsetFetchRequest("g", None),
    ],
    ApiKey.FIND_COORDINATOR: [m.FindCoordinatorRequest("g", 0), m.FindCoordinatorRequest("tx", 1)],
    ApiKey.JOIN_GROUP: [m.JoinGroupRequest("g")],
    ApiKey.HEARTBEAT: [m.HeartbeatRequest("g")],
    ApiKey.LEAVE_GROUP: [m.LeaveGroupRequest("g")],
    ApiKey.SYNC_GROUP: [m.SyncGroupRequest("g")],
    ApiKey.DESCRIBE_GROUPS: [m.DescribeGroupsRequest(NAMES)],
    ApiKey.LIST_GROUPS: [m.ListGroupsRequest()],
    ApiKey.SASL_HANDSHAKE: [m.SaslHandshakeRequest("PLAIN")],
    ApiKey.SASL_AUTHENTICATE: [m.SaslAuthenticateRequest(b"x")],
    ApiKey.API_VERSIONS: [m.ApiVersionsRequest()],
    ApiKey.CREATE_TOPICS: [m.CreateTopicsRequest([NewTopic(name, 1, 1) for name in NAMES])],
    ApiKey.DELETE_TOPICS: [m.DeleteTopicsRequest(NAMES)],
    ApiKey.DELETE_RECORDS: [
        m.DeleteRecordsRequest(_topics(DeleteRecordsRequestTopic, DeleteRecordsRequestPartition, 0))
    ],
    ApiKey.INIT_PRODUCER_ID: [
        m.InitProducerIdRequest(None, 1000),
        m.InitProducerIdRequest("tx", 1000),
    ],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [
        m.OffsetForLeaderEpochRequest(
            topics=_topics(OffsetForLeaderEpochRequestTopic, OffsetForLeaderEpochRequestPartition)
        )
    ],
    ApiKey.ADD_PARTITIONS_TO_TXN: [m.AddPartitionsToTxnRequest("tx", 1, 0, _TXN)],
    ApiKey.ADD_OFFSETS_TO_TXN: [m.AddOffsetsToTxnRequest("tx", 1, 0, "g")],
    ApiKey.END_TXN: [m.EndTxnRequest("tx", 1, 0, True)],
    ApiKey.WRITE_TXN_MARKERS: [m.WriteTxnMarkersRequest([TxnMarker(1, 0, True, _TXN, 0)])],
    ApiKey.TXN_OFFSET_COMMIT: [m.TxnOffsetCommitRequest("tx", "g", 1, 0, _TXN_OFFSETS)],
    ApiKey.DESCRIBE_ACLS: [m.DescribeAclsRequest()],
    ApiKey.CREATE_ACLS: [m.CreateAclsRequest([AclCreation(2, "t", 3, "User:a", "*", 3, 3)])],
    ApiKey.DELETE_ACLS: [m.DeleteAclsRequest([AclFilter()])],
    ApiKey.DESCRIBE_CONFIGS: [
        m.DescribeConfigsRequest([DescribeConfigsResource(*each) for each in _CONFIGURED])
    ],
    ApiKey.ALTER_CONFIGS: [
        m.AlterConfigsRequest([AlterConfigsResource(*each) for each in _CONFIGURED])
    ],
    ApiKey.DESCRIBE_LOG_DIRS: [m.DescribeLogDirsRequest(None)],
    ApiKey.CREATE_PARTITIONS: [m.CreatePartitionsRequest([NewPartitions(n, 3) for n in NAMES])],
    ApiKey.DELETE_GROUPS: [m.DeleteGroupsRequest(NAMES)],
    ApiKey.ELECT_PREFERRED_LEADERS: [
        m.ElectPreferredLeadersRequest([ElectPreferredLeadersTopic(name, [0]) for name in NAMES])
    ],
    ApiKey.VERIFY_TRANSACTION: [m.VerifyTransactionRequest([VerifiedTransaction("tx", 1, 0)])],
}
