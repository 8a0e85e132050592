"""Brokers in the test's own process, on threads and real sockets, whose responses a test decides.

They keep what is produced, with the rules for sequence numbers of a genuine broker, so that a test
can check what was stored after any mixture of refusals, lost answers and moves.
"""

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any

from tests.support.sockets import shut
from zkbroker.errors import ErrorCode
from zkbroker.protocol import SUPPORTED_VERSIONS, ApiKey, decode_request, encode_response
from zkbroker.protocol.messages import (
    ApiVersionsResponse,
    DescribeConfigsResponse,
    InitProducerIdResponse,
    ListOffsetsResponse,
    MetadataResponse,
    ProduceResponse,
)
from zkbroker.protocol.messages.api_versions import ApiVersion
from zkbroker.protocol.messages.list_offsets import (
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from zkbroker.protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataTopic,
)
from zkbroker.protocol.messages.produce import ProduceResponsePartition, ProduceResponseTopic
from zkbroker.records import Record, iter_entries, iter_records

LOSE_ANSWER = object()
"""A fault: handle the request, then close the connection without a response."""
CLOSE = object()
"""A fault: close the connection without handling the request."""
HANG = object()
"""A fault: receive the request and never respond, as a stopped process does."""


class FakeLog:
    """The records of one partition, and what its producers sent last."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.sets: list[bytes] = []
        self.producers: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        entries = list(iter_entries(data))
        first = entries[0]
        if first.producer_id >= 0:
            last_sequence = first.base_sequence + first.record_count - 1
            epoch, recent = self.producers.get(first.producer_id, (first.producer_epoch, []))
            for base, last, offset in recent:
                if (base, last) == (first.base_sequence, last_sequence):
                    return ErrorCode.NONE, offset
            # As genuine brokers since 2.5: the first of an unknown producer may begin anywhere.
            if recent and first.base_sequence != recent[-1][1] + 1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            recent = [*recent, (first.base_sequence, last_sequence, len(self.records))][-5:]
            self.producers[first.producer_id] = (epoch, recent)
        base = len(self.records)
        self.sets.append(data)
        self.records.extend(
            record._replace(offset=base + i) for i, record in enumerate(iter_records(data))
        )
        return ErrorCode.NONE, base


class FakeBroker:
    """One listening broker of a `FakeCluster`."""

    def __init__(self, cluster: "FakeCluster", broker_id: int, port: int = 0) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.requests: list[tuple[ApiKey, int, Any]] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self) -> None:
        """Close every socket, as a killed process does."""
        for each in [self._listener, *self._connections]:
            shut(each)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                while True:
                    prefix = stream.read(4)
                    if len(prefix) < 4:
                        return
                    frame = bytearray(stream.read(struct.unpack(">i", prefix)[0]))
                    header, request = decode_request(memoryview(frame))
                    key = ApiKey(header.api_key)
                    self.requests.append((key, header.api_version, request))
                    response = self.cluster.answer(self, key, header.api_version, request)
                    if response is CLOSE:
                        return
                    if response is not None and response is not HANG:
                        parts = encode_response(header.correlation_id, response, header.api_version)
                        connection.sendall(b"".join(bytes(part) for part in parts))
        except OSError:
            return


class FakeCluster:
    """Brokers and topics; `leaders[topic][partition]` is a broker id or None.

    `faults` maps (API, broker id) to a function of the request that returns None to go on, one of
    the faults above, an error code (for every partition of a produce), or a whole response.
    """

    def __init__(self, brokers: int = 1, *, max_produce_version: int = 7) -> None:
        self.lock = threading.RLock()
        self.leaders: dict[str, list[int | None]] = {}
        self.logs: dict[tuple[str, int], FakeLog] = {}
        self.auto_create = 0
        self.max_message_bytes = 1_000_012
        self.faults: dict[tuple[ApiKey, int], Callable[[Any], Any]] = {}
        self.versions = {int(key): span for key, span in SUPPORTED_VERSIONS.items()}
        self.versions[int(ApiKey.PRODUCE)] = (0, max_produce_version)
        self.next_producer_id = 100
        self.brokers = {i: FakeBroker(self, i) for i in range(brokers)}

    def __enter__(self) -> "FakeCluster":
        return self

    def __exit__(self, *exc_info: object) -> None:
        for broker in self.brokers.values():
            broker.stop()

    @property
    def addresses(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def create(self, topic: str, leaders: list[int | None]) -> None:
        with self.lock:
            self.leaders[topic] = list(leaders)
            for partition in range(len(leaders)):
                self.logs.setdefault((topic, partition), FakeLog())

    def log(self, topic: str, partition: int) -> FakeLog:
        return self.logs[topic, partition]

    def values(self, topic: str, partition: int) -> list[bytes | None]:
        return [record.value for record in self.logs[topic, partition].records]

    def restart(self, broker_id: int) -> None:
        """Start a broker with the same id at another port."""
        self.brokers[broker_id].stop()
        self.brokers[broker_id] = FakeBroker(self, broker_id)

    def answer(self, broker: FakeBroker, key: ApiKey, version: int, request: Any) -> Any:
        fault = self.faults.get((key, broker.id))
        found = None if fault is None else fault(request)
        if key is ApiKey.METADATA and version == 0 and not request.topics:
            request.topics = None  # an empty list asks for all in version 0
        if found is CLOSE or found is HANG:
            return found
        with self.lock:
            if found is None or found is LOSE_ANSWER or isinstance(found, ErrorCode):
                code = found if isinstance(found, ErrorCode) else None
                response = getattr(self, f"_{key.name.lower()}")(broker, request, code)
            else:
                response = found
        return CLOSE if found is LOSE_ANSWER else response

    def _api_versions(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        spans = [
            ApiVersion(key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(error_code=0, versions=spans)

    def _metadata(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        topics = []
        names = self.leaders if request.topics is None else request.topics
        for name in list(names):
            created = False
            if name not in self.leaders and self.auto_create and request.allow_auto_topic_creation:
                ids = list(self.brokers)
                self.create(name, [ids[p % len(ids)] for p in range(self.auto_create)])
                created = True
            if name not in self.leaders or created:
                error = (
                    ErrorCode.LEADER_NOT_AVAILABLE
                    if created
                    else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                topics.append(MetadataTopic(error_code=error, topic=name))
                continue
            partitions = [
                MetadataPartition(
                    error_code=0,
                    partition=p,
                    leader=-1 if leader is None else leader,
                    replicas=[leader or 0],
                    isr=[leader or 0],
                )
                for p, leader in enumerate(self.leaders[name])
            ]
            topics.append(MetadataTopic(error_code=0, topic=name, partitions=partitions))
        return MetadataResponse(
            brokers=[
                MetadataBroker(node_id=each.id, host="127.0.0.1", port=each.port)
                for each in self.brokers.values()
            ],
            controller_id=min(self.brokers, default=-1),
            topics=topics,
        )

    def _produce(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                error, offset = self._append(broker, topic.topic, each, code)
                partitions.append(
                    ProduceResponsePartition(
                        partition=each.partition, error_code=error, base_offset=offset
                    )
                )
            topics.append(ProduceResponseTopic(topic=topic.topic, partitions=partitions))
        return None if request.acks == 0 else ProduceResponse(topics=topics)

    def _append(
        self, broker: FakeBroker, topic: str, each: Any, code: ErrorCode | None
    ) -> tuple[ErrorCode, int]:
        if code is not None:
            return code, -1
        leaders = self.leaders.get(topic, [])
        if each.partition >= len(leaders):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
        if leaders[each.partition] != broker.id:
            return ErrorCode.NOT_LEADER_FOR_PARTITION, -1
        data = bytes(each.records)
        if len(data) > self.max_message_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        return self.logs[topic, each.partition].append(data)

    def _describe_configs(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        return DescribeConfigsResponse()

    def _init_producer_id(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        if code is not None:
            return InitProducerIdResponse(error_code=code)
        self.next_producer_id += 1
        return InitProducerIdResponse(
            error_code=0, producer_id=self.next_producer_id, producer_epoch=0
        )

    def _list_offsets(self, broker: FakeBroker, request: Any, code: ErrorCode | None) -> Any:
        topics = []
        for topic in request.topics:
            leaders = self.leaders.get(topic.topic, [])
            partitions = []
            for each in topic.partitions:
                here = each.partition < len(leaders) and leaders[each.partition] == broker.id
                error = ErrorCode.NONE if here else ErrorCode.NOT_LEADER_FOR_PARTITION
                partitions.append(
                    ListOffsetsResponsePartition(
                        partition=each.partition,
                        error_code=error,
                        timestamp=-1,
                        offset=0,
                        offsets=[0],
                    )
                )
            topics.append(ListOffsetsResponseTopic(topic=topic.topic, partitions=partitions))
        return ListOffsetsResponse(topics=topics)
