import pytest

from tests.support.handler_services import HandlerSession
from tests.support.replicas import PlainRuntime
from zkbroker.broker.clients import ClientVersions
from zkbroker.broker.dispatcher import Dispatcher
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.quotas.client_quotas import ClientQuotas
from zkbroker.broker.quotas.table import QuotaTable
from zkbroker.broker.quotas.throttling import Throttling
from zkbroker.errors import ErrorCode, ProtocolError, RegistryError
from zkbroker.fileslice import FileSlice
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol import ApiKey, RequestHeader, decode_response, encode_request
from zkbroker.protocol.messages import (
    AddPartitionsToTxnRequest,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
)
from zkbroker.protocol.messages.fetch import FetchResponsePartition, FetchResponseTopic
from zkbroker.protocol.messages.transactions import TxnTopicPartitions
from zkbroker.registry.user_configs import ConfigEntity, UserConfigs


def frame(key, version, request=None, client_id="c"):
    header = RequestHeader(key, version, 7, client_id)
    if request is None:
        name = (client_id or "").encode()
        data = key.to_bytes(2, "big") + version.to_bytes(2, "big") + (7).to_bytes(4, "big")
        return memoryview(bytearray(data + len(name).to_bytes(2, "big") + name))
    return memoryview(bytearray(b"".join(encode_request(header, request))[4:]))


@pytest.fixture
def session():
    return HandlerSession()


@pytest.fixture
def clients():
    return ClientVersions(PlainRuntime(lambda: 0))


@pytest.fixture
def dispatcher(clients):
    def make(**handlers):
        known = {ApiKey[name.upper()]: handler for name, handler in handlers.items()}
        return Dispatcher(known, BrokerMetrics(), clients)

    return make


def raising(error):
    def handle(*given):
        raise error

    return handle


def test_request_is_decoded_handled_and_answered(dispatcher, session):
    def handle(request, context):
        assert (request.transaction_timeout_ms, context.client_id) == (5, "c")
        return InitProducerIdResponse(producer_id=42)

    asked = frame(22, 1, InitProducerIdRequest(None, 5))
    parts = dispatcher(init_producer_id=handle).handle(session, asked)
    correlation_id, response = decode_response(22, 1, b"".join(parts)[4:])
    assert (correlation_id, response.producer_id) == (7, 42)


@pytest.mark.parametrize(
    ("error", "code"),
    [(ProtocolError(code=ErrorCode.NOT_CONTROLLER), 41), (RegistryError("away"), 7)],
)
def test_exception_becomes_error_code_of_the_response(dispatcher, session, error, code):
    asked = frame(22, 0, InitProducerIdRequest())
    parts = dispatcher(init_producer_id=raising(error)).handle(session, asked)
    assert decode_response(22, 0, b"".join(parts)[4:])[1].error_code == code


def test_connection_is_closed_when_the_response_has_no_error_field(dispatcher, session):
    made = dispatcher(metadata=raising(RegistryError("ZooKeeper is away")))
    with pytest.raises(CloseConnection, match="METADATA failed: ZooKeeper is away"):
        made.handle(session, frame(3, 1, MetadataRequest([])))


def test_exception_becomes_error_code_of_each_requested_partition(dispatcher, session):
    """As AddPartitionsToTxn without permission: its client would otherwise retry for ever."""
    denied = ProtocolError("no", code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    request = AddPartitionsToTxnRequest("id", 1, 0, [TxnTopicPartitions("t", [0, 1])])
    asked = frame(24, 1, request)
    parts = dispatcher(add_partitions_to_txn=raising(denied)).handle(session, asked)
    found = decode_response(24, 1, b"".join(parts)[4:])[1]
    assert [each.error_code for each in found.topics[0].partitions] == [53, 53]


@pytest.mark.parametrize(
    ("key", "version", "message"),
    [
        (999, 0, "not served: api_key=999 api_version=0 asked by client_id=c"),
        (0, 99, "not served: api_key=0 api_version=99 asked by client_id=c"),
        (1, 4, "malformed request: .*api_key=1 api_version=4"),
        (16, 0, "not served: api_key=16 api_version=0 asked by client_id=c"),
    ],
)
def test_unserved_request_is_reported_and_counted(
    dispatcher, session, clients, key, version, message
):
    with pytest.raises(CloseConnection, match=message):
        dispatcher().handle(session, frame(key, version))
    counted = clients.snapshot()["clients"]
    if "malformed" not in message:
        assert counted[0]["client_id"] == "c"
        assert counted[0]["addresses"] == ["10.0.0.1"]
        assert [(each["api_key"], each["version"]) for each in counted[0]["requests"]] == [
            (key, version)
        ]


def test_file_slices_are_closed_when_encoding_fails(dispatcher, session):
    closed = []

    def handle(*given):
        part = FileSlice(0, 0, 10, lambda: closed.append(1))
        broken = FetchResponsePartition(partition="no number", records=part)
        return FetchResponse(topics=[FetchResponseTopic("t", [broken])])

    with pytest.raises(ValueError):
        dispatcher(fetch=handle).handle(session, frame(1, 4, FetchRequest()))
    assert closed == [1]


def test_handler_may_return_no_response(dispatcher, session):
    asked = frame(22, 0, InitProducerIdRequest())
    assert dispatcher(init_producer_id=lambda *given: None).handle(session, asked) is None


def test_error_codes_anywhere_in_a_response_are_counted(session):
    def fetched(*_):
        rows = [FetchResponsePartition(n, code, records=b"") for n, code in enumerate((0, 3, 3))]
        return FetchResponse(topics=[FetchResponseTopic("t", rows)])

    refused = raising(RegistryError("away"))
    metrics = BrokerMetrics()
    handlers = {ApiKey.FETCH: fetched, ApiKey.INIT_PRODUCER_ID: refused}
    dispatcher = Dispatcher(handlers, metrics, ClientVersions(PlainRuntime(lambda: 0)))
    dispatcher.handle(session, frame(ApiKey.FETCH, 4, FetchRequest()))
    dispatcher.handle(session, frame(ApiKey.INIT_PRODUCER_ID, 0, InitProducerIdRequest()))
    assert metrics.request(ApiKey.FETCH).errors == {3: 2}
    assert metrics.request(ApiKey.INIT_PRODUCER_ID).errors == {ErrorCode.REQUEST_TIMED_OUT: 1}


def test_unserved_api_is_warned_of_once_per_client(dispatcher, session, clients):
    made = dispatcher()
    quiet = []
    for key, version in [(999, 0), (999, 0), (999, 1), (998, 0)]:
        with pytest.raises(CloseConnection) as caught:
            made.handle(session, frame(key, version))
        quiet.append(caught.value.quiet)
    assert quiet == [False, True, True, False]
    counted = clients.snapshot()["clients"][0]["requests"]
    assert sum(each["count"] for each in counted) == 4


def test_request_with_too_many_items_is_refused_before_decoding_them(session, clients):
    made = Dispatcher({}, BrokerMetrics(), clients, max_items=1000)
    asked = frame(3, 1, MetadataRequest(["t"] * 1001))
    with pytest.raises(CloseConnection, match=r"request\.max\.items=1000 .*api_key=3"):
        made.handle(session, asked)


@pytest.mark.parametrize("no_broker", [False, True])
def test_inter_broker_request_of_a_client_counts_towards_quota(dispatcher, session, no_broker):
    """Otherwise no quota would bound refused requests."""
    quotas = ClientQuotas(lambda: 0)
    settings = {"request_percentage": "0.000001"}
    quotas.take(QuotaTable(UserConfigs({ConfigEntity(user="ANONYMOUS"): settings})))

    def handle(request, context):
        context.no_broker = no_broker
        return FetchResponse()

    made = dispatcher(fetch=handle)
    made.throttling = Throttling(quotas)
    made.handle(session, frame(1, 4, FetchRequest(replica_id=2)))
    assert bool(session.mute.seconds) is no_broker
