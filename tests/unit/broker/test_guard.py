"""Each API with each of its permissions missing in turn: the error of the table, and no effect."""

from dataclasses import fields, is_dataclass
from types import SimpleNamespace

import pytest

from tests.support.handler_services import HandlerSession
from tests.support.permissions import SAMPLES, named
from zkbroker.broker.context import RequestContext
from zkbroker.broker.guard import GuardedHandler, Permissions, guarded
from zkbroker.broker.permissions import NEEDS, REFUSED, Scope
from zkbroker.broker.refusals import ITEMS
from zkbroker.errors import ZkbrokerError
from zkbroker.network.server.server import CloseConnection
from zkbroker.protocol import BROKER_VERSIONS, MESSAGES, ApiKey, decode_response, encode_response
from zkbroker.protocol import messages as m
from zkbroker.protocol.messages.fetch import FetchRequestTopic
from zkbroker.protocol.messages.groups import ListedGroup
from zkbroker.protocol.messages.metadata import MetadataBroker, MetadataTopic
from zkbroker.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequestTopic
from zkbroker.protocol.messages.offsets import OffsetFetchResponseTopic
from zkbroker.protocol.messages.produce import ProduceRequestTopic
from zkbroker.security import ANONYMOUS, Operation, Resource, ResourceType
from zkbroker.security.audit import AuditLog

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def no_topic(name):
    return False


class DenyingAuthorizer:
    """Allows what a test does not deny."""

    def __init__(self, denies, some=lambda operation: False):
        self.denies, self.some = denies, some
        self.asked = []

    def allows(self, principal, operation, resource, host):
        assert (principal, host) == (ANONYMOUS, "10.0.0.1")
        self.asked.append((operation, resource))
        return not self.denies(operation, resource)

    def allows_some(self, principal, operation, kind, host):
        return bool(self.some(operation))


class RecordingHandler:
    """Records requests; returns the given response, or an empty one."""

    def __init__(self, answer=None):
        self.requests = []
        self.answer = answer

    def __call__(self, request, context):
        self.requests.append(request)
        return MESSAGES[request.api_key][1]() if self.answer is None else self.answer


def ask(request, authorizer, handler, version=None, would_create=no_topic):
    api = ApiKey(request.api_key)
    version = BROKER_VERSIONS[api][1] if version is None else version
    context = RequestContext(HandlerSession(), api, version, 7, "c")
    permissions = Permissions(authorizer, AuditLog(lambda: 0))
    answer = GuardedHandler(api, handler, permissions, would_create)(request, context)
    if answer is None:
        return None
    parts = encode_response(1, answer, version)
    return decode_response(api, version, b"".join(bytes(part) for part in parts)[4:])[1]


def errors(value):
    """Yield every error code of an answer."""
    if isinstance(value, list):
        for each in value:
            yield from errors(each)
    elif is_dataclass(value):
        for field in fields(value):
            if field.name == "error_code":
                yield value.error_code
            else:
                yield from errors(getattr(value, field.name))


def each_need():
    for api, needs in NEEDS.items():
        for number, need in enumerate(needs):
            for version in range(BROKER_VERSIONS[api][0], BROKER_VERSIONS[api][1] + 1):
                if need.scope is not Scope.LISTED:
                    yield pytest.param(api, need, version, id=f"{api.name}-{number}-v{version}")


def is_for(need, request):
    """Whether a request is one that a need is for."""
    if need.when is not None and not need.when(request):
        return False
    return need.scope is not Scope.WHOLE or bool(list(need.on(request)))


def code_of(need, part):
    (resource,) = need.on(part)
    return need.code or REFUSED[resource.type]


def test_every_api_has_a_sample_for_each_of_its_permissions():
    assert set(SAMPLES) == set(BROKER_VERSIONS)
    for api, needs in NEEDS.items():
        for need in needs:
            assert any(is_for(need, each) for each in SAMPLES[api]), (api, need)


@pytest.mark.parametrize(("api", "need", "version"), list(each_need()))
def test_missing_permission_gives_its_error_and_no_effect(api, need, version):
    request = next(each for each in SAMPLES[api] if is_for(need, each))

    def denies(operation, resource):
        if operation == need.operation:
            return need.scope is Scope.WHOLE or "denied" in resource.name or resource.type == 4
        return operation == need.or_on_cluster

    handler = RecordingHandler()
    authorizer = DenyingAuthorizer(denies)
    if api is ApiKey.DESCRIBE_LOG_DIRS:
        assert ask(request, authorizer, handler, version).log_dirs == []
        assert handler.requests == []
        return
    answer = ask(request, authorizer, handler, version, lambda name: True)
    field = ITEMS[api].asked if api in ITEMS else None
    if need.scope is Scope.WHOLE:
        assert handler.requests == []
        assert set(errors(answer)) - {0} == {code_of(need, request)}
        return
    assert field is not None
    items = getattr(request, field)
    refused = [each for each in items if "denied" in named(each)]
    kept = [each for each in items if each not in refused]
    assert refused
    expected = {code_of(need, each) for each in refused}
    if need.rest is not None:
        expected.add(need.rest)
        kept = []
    assert [getattr(each, field) for each in handler.requests] == ([kept] if kept else [])
    assert set(errors(answer)) - {0} == expected
    assert getattr(request, field) == items, "the request itself is left as it was"


@pytest.mark.parametrize("api", [api for api in NEEDS if NEEDS[api]])
def test_request_passes_unchanged_with_every_permission(api):
    for request in SAMPLES[api]:
        handler = RecordingHandler()
        ask(request, DenyingAuthorizer(lambda *given: False), handler)
        assert handler.requests == [request]
        assert handler.requests[0] is request


@pytest.mark.parametrize("api", [api for api in NEEDS if NEEDS[api]])
def test_only_listings_are_handled_without_permissions(api):
    for request in SAMPLES[api]:
        handler = RecordingHandler()
        denied = DenyingAuthorizer(lambda *given: True)
        ask(request, denied, handler, would_create=lambda name: pytest.fail("looked up"))
        for each in handler.requests:
            assert not getattr(each, "topics", None)
            assert api in (ApiKey.METADATA, ApiKey.LIST_GROUPS)


@pytest.mark.parametrize("version", [0, 1, 7])
def test_metadata_refuses_topics_and_still_lists_brokers(version):
    seen = []

    def handler(request, context):
        seen.append((request.topics, context.api_version > 0))
        return m.MetadataResponse(brokers=[MetadataBroker(1, "h", 1)])

    answer = ask(
        m.MetadataRequest(["a", "b"]),
        DenyingAuthorizer(lambda *given: True),
        handler,
        version,
    )
    assert seen == [([], True)]
    assert [each.node_id for each in answer.brokers] == [1]
    assert [(each.topic, each.error_code, each.partitions) for each in answer.topics] == [
        ("a", 29, []),
        ("b", 29, []),
    ]


def test_unnamed_resources_are_omitted_when_denied():
    hidden = DenyingAuthorizer(lambda operation, resource: resource.name in ("b", "kafka-cluster"))
    made = m.MetadataResponse(topics=[MetadataTopic(0, "a"), MetadataTopic(0, "b")])
    answer = ask(m.MetadataRequest(None), hidden, RecordingHandler(made))
    assert [each.topic for each in answer.topics] == ["a"]
    groups = m.ListGroupsResponse(groups=[ListedGroup("a", "c"), ListedGroup("b", "c")])
    answer = ask(m.ListGroupsRequest(), hidden, RecordingHandler(groups))
    assert (answer.error_code, [each.group_id for each in answer.groups]) == (0, ["a"])
    made = m.OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic("a", []), OffsetFetchResponseTopic("b", [])]
    )
    answer = ask(m.OffsetFetchRequest("g", None), hidden, RecordingHandler(made))
    assert [each.topic for each in answer.topics] == ["a"]


def test_describe_on_cluster_lists_all_groups():
    allowed = DenyingAuthorizer(lambda operation, resource: resource.type is GROUP)
    groups = m.ListGroupsResponse(groups=[ListedGroup("a", "c")])
    assert len(ask(m.ListGroupsRequest(), allowed, RecordingHandler(groups)).groups) == 1


def test_auto_creation_needs_create_permission():
    new = "new".__eq__
    denied = DenyingAuthorizer(lambda operation, resource: operation is Operation.CREATE)
    for request, kept in (
        (m.MetadataRequest(["old", "new"]), ["old"]),
        (m.MetadataRequest(["old", "new"], allow_auto_topic_creation=False), ["old", "new"]),
    ):
        handler = RecordingHandler()
        ask(request, denied, handler, would_create=new)
        assert handler.requests[0].topics == kept
    for kind in (TOPIC, ResourceType.CLUSTER):
        one = DenyingAuthorizer(lambda o, r, k=kind: o is Operation.CREATE and r.type is not k)
        handler = RecordingHandler()
        ask(m.MetadataRequest(["new"]), one, handler, would_create=new)
        assert handler.requests[0].topics == ["new"]


def test_idempotent_producer_needs_write_on_some_topic():
    (request,) = (each for each in SAMPLES[ApiKey.PRODUCE] if each.transactional_id is None)
    nothing = DenyingAuthorizer(lambda operation, resource: operation is Operation.IDEMPOTENT_WRITE)
    assert set(errors(ask(request, nothing, RecordingHandler()))) == {31}
    nothing.some = lambda operation: operation is Operation.WRITE
    handler = RecordingHandler()
    ask(request, nothing, handler)
    assert handler.requests == [request]
    simple = SimpleNamespace(allows=nothing.allows)  # a custom authorizer without allows_some
    assert set(errors(ask(request, simple, RecordingHandler()))) == {31}


def test_denied_produce_with_acks_0_closes_the_connection():
    request = m.ProduceRequest(None, 0, 1, [ProduceRequestTopic("a"), ProduceRequestTopic("b")])
    handler = RecordingHandler(m.ProduceResponse())
    with pytest.raises(CloseConnection, match="acks=0 refused: topics=a"):
        ask(request, DenyingAuthorizer(lambda operation, resource: resource.name == "a"), handler)
    assert [each.topic for each in handler.requests[0].topics] == ["b"]


def test_failing_authorizer_denies(caplog):
    def fails(*given):
        raise RuntimeError("no directory")

    broken = Permissions(DenyingAuthorizer(fails), AuditLog(lambda: 0))
    client = SimpleNamespace(principal=ANONYMOUS, peer="10.0.0.1", client_id="c")
    resource = Resource(TOPIC, "t")
    assert not broken.allowed(client, Operation.READ, resource)
    assert not broken.allowed(client, Operation.READ, resource)
    text = "authorizer failed, refused error=RuntimeError('no directory')"
    assert [each for each in caplog.messages if each == text] == [text]
    truthy = SimpleNamespace(allows=lambda *given: "no")
    assert ask(SAMPLES[ApiKey.HEARTBEAT][0], truthy, RecordingHandler()).error_code == 30


def test_follower_without_permission_gets_error_70():
    denies = DenyingAuthorizer(lambda *given: True)
    for topics in ([], SAMPLES[ApiKey.FETCH][1].topics):
        request = m.FetchRequest(1, session_id=5, session_epoch=3, topics=topics)
        handler = RecordingHandler()
        answer = ask(request, denies, handler, 11)
        assert (answer.error_code, answer.session_id) == (70, 0)
        assert {code for each in answer.topics for code in errors(each)} == (
            {29} if topics else set()
        )
        assert handler.requests == []


def test_api_missing_from_the_table_is_refused():
    permissions = Permissions(DenyingAuthorizer(lambda *given: False), AuditLog(lambda: 0))

    class Unknown:
        name = "NEW"

    unknown = Unknown()
    with pytest.raises(ZkbrokerError, match="NEW"):
        guarded({unknown: RecordingHandler()}, permissions, no_topic)
    open_to_all = RecordingHandler()
    handlers = guarded({ApiKey.API_VERSIONS: open_to_all}, permissions, no_topic)
    assert handlers[ApiKey.API_VERSIONS] is open_to_all


@pytest.mark.parametrize(
    ("request_", "denied", "no_broker"),
    [
        (m.FetchRequest(replica_id=2), Operation.CLUSTER_ACTION, True),
        (m.LeaderAndIsrRequest(), Operation.CLUSTER_ACTION, True),
        (
            m.OffsetForLeaderEpochRequest(2, [OffsetForLeaderEpochRequestTopic("t", [])]),
            Operation.CLUSTER_ACTION,
            True,
        ),
        (m.FetchRequest(replica_id=2), Operation.READ, False),
        (m.FetchRequest(topics=[FetchRequestTopic("t", [])]), Operation.READ, False),
    ],
)
def test_client_without_cluster_action_is_not_taken_for_a_broker(request_, denied, no_broker):
    context = RequestContext(HandlerSession(), request_.api_key, 3, 7, "c")
    permissions = Permissions(
        DenyingAuthorizer(lambda operation, _: operation is denied), AuditLog(lambda: 0)
    )
    GuardedHandler(request_.api_key, RecordingHandler(), permissions, no_topic)(request_, context)
    assert context.no_broker is no_broker
