"""A leader without a network: real partitions and the broker's handlers, with faults on demand."""

from typing import Any

from tests.support.handler_services import handler_context, handler_services
from tests.support.replicas import PlainRuntime
from tests.support.simulated_real_logs import materialise
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.broker.handlers.list_offsets import ListOffsetsHandler
from zkbroker.broker.handlers.replication import ReplicationHandlers
from zkbroker.errors import NetworkError, ProtocolError
from zkbroker.log import TopicPartition
from zkbroker.protocol import (
    ApiKey,
    RequestHeader,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from zkbroker.protocol.messages import MESSAGES
from zkbroker.replica.partition import Partition
from zkbroker.replica.role import NO_EPOCH
from zkbroker.runtime import get_runtime


class StillRuntime(PlainRuntime):
    """Starts no task: a test of a loop runs the loop's steps itself."""

    def spawn(self, function: Any, *args: Any, name: str) -> Any:
        return self

    def join(self, timeout_s: float | None = None) -> bool:
        return True

    def sleep(self, seconds: float) -> None: ...


class FakeLeader:
    """Answers Fetch, ListOffsets and OffsetForLeaderEpoch as a broker; no fetch waits for records.

    Args:
        slots: how many fetch sessions it keeps.
    """

    def __init__(self, slots: int = 10) -> None:
        self.partitions: dict[TopicPartition, Partition] = {}
        self.requests: list[tuple[Any, int]] = []
        self.errors: dict[TopicPartition, int] = {}
        self.fail_next: list[Exception] = []
        self.before_answer: Any = lambda request: None
        self.change_answer: Any = lambda answer: None
        self.connections: list[tuple[int, int]] = []
        self.closed = 0
        services = handler_services(self.partitions, get_runtime("threads"))
        services.config.fetch_session_slots = slots
        services.draining = True
        services.partition, services.leadership = self._partition, self._leadership
        fetch = FetchHandler(services)
        self.sessions = fetch.sessions
        nothing: Any = None
        replication = ReplicationHandlers(services, nothing, nothing, nothing)
        self._handlers: dict[ApiKey, Any] = {
            ApiKey.FETCH: fetch,
            ApiKey.LIST_OFFSETS: ListOffsetsHandler(services),
            ApiKey.OFFSET_FOR_LEADER_EPOCH: replication.offset_for_leader_epoch,
        }

    def connect(self, broker_id: int, number: int) -> "FakeLeader":
        self.connections.append((broker_id, number))
        return self

    def close(self) -> None:
        self.closed += 1

    def send(self, request: Any, version: int) -> Any:
        # Encoded and decoded, so that only the fields of this version arrive.
        header = RequestHeader(request.api_key, version, 1, "broker-2-fetcher-0")
        frame = b"".join(bytes(part) for part in encode_request(header, request))
        _, request = decode_request(memoryview(frame)[4:])
        self.requests.append((request, version))
        if self.fail_next:
            raise self.fail_next.pop(0)
        try:
            handle = self._handlers[request.api_key]
            answer = materialise(handle(request, handler_context(version)))
        except ProtocolError as error:
            answer = MESSAGES[request.api_key][1]()
            answer.error_code = error.code
        self.before_answer(request)
        self.change_answer(answer)
        frame = b"".join(bytes(part) for part in encode_response(1, answer, version))
        return decode_response(request.api_key, version, memoryview(frame)[4:])[1]

    def of(self, api_key: ApiKey) -> list[Any]:
        return [each for each, _ in self.requests if each.api_key == api_key]

    def _partition(
        self, topic: str, number: int, patience: Any = None, *, during_deletion: bool = False
    ) -> Partition:
        key = TopicPartition(topic, number)
        if self.errors.get(key):
            raise ProtocolError("an error of the test", code=self.errors[key])
        return self.partitions[key]

    def _leadership(self, *asked: Any, epoch: int = NO_EPOCH, during_deletion: bool = False) -> Any:
        return self._partition(*asked).leadership(epoch)


def lost() -> NetworkError:
    return NetworkError("the connection was lost")
