"""Topics that brokers create on demand, and requests on topics that are refused."""

from types import SimpleNamespace

import pytest

from tests.support.handler_services import handler_context
from tests.support.instant_session import InstantSession
from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.broker.handlers.topics import TopicsHandlers
from zkbroker.broker.topics import Topics
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.protocol.messages import CreatePartitionsRequest, DeleteTopicsRequest
from zkbroker.protocol.messages.topics import NewPartitions
from zkbroker.protocol.offsets_topic import OFFSETS_TOPIC
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.topics import assignment


def topics(racks):
    session = InstantSession()
    view = SimpleNamespace(
        topics=SimpleNamespace(assignments={}),
        assignment=lambda name: assignment(session, name),
        brokers={id_: SimpleNamespace(id=id_, rack=rack) for id_, rack in enumerate(racks)},
    )
    config = BrokerConfig(zookeeper_connect="none", default_replication_factor=2)
    return session, Topics(config, session, view, PartitionCapacity(256))


@pytest.mark.parametrize(
    ("racks", "without"), [("aabb", None), ([None] * 4, None), (["a", "a", "b", None], "3")]
)
def test_racks_are_used_only_when_every_broker_has_one(caplog, racks, without):
    session, made = topics(racks)
    made.create_automatically("t")
    assert len(assignment(session, "t")[0]) == 2
    warning = "topic=t was placed without regard to racks: set broker.rack on brokers 3 too"
    assert caplog.messages == ([] if without is None else [warning])


def register(session, *ids):
    for id_ in ids:
        found = BrokerInfo(id=id_, host="h", port=9092)
        session.create(paths.broker(id_), found.to_json(), parents=True)


@pytest.mark.parametrize(
    "wanted",
    [
        {"partitions": 2, "replication_factor": 3},
        {"partitions": 2},
        {"assignment": {0: [2, 1]}},
    ],
    ids=str,
)
def test_registered_brokers_unknown_to_the_view_get_replicas(wanted):
    session, made = topics([None])
    register(session, 0, 1, 2)
    made.create("t", **wanted)
    replicas = assignment(session, "t")[0]
    assert len(replicas) == wanted.get("replication_factor", 2)
    with pytest.raises(ProtocolError, match="larger than available brokers: 3") as refused:
        made.create("u", partitions=1, replication_factor=4)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_new_partitions_use_brokers_unknown_to_the_view():
    session, made = topics([None])
    register(session, 0, 1)
    made.create("t", partitions=1)
    made.add_partitions("t", 2, None)
    made.add_partitions("t", 3, [[1, 0]])
    assert [len(replicas) for replicas in assignment(session, "t").values()] == [2, 2, 2]


@pytest.mark.parametrize("seen", [None, 2, 5])
def test_new_partitions_follow_those_in_zookeeper(seen):
    """The view may show the topic before it grew, or one of this name that was deleted."""
    session, made = topics([None, None])
    made.create("t", partitions=3)
    before = assignment(session, "t")
    made.view.assignment = lambda name: seen and dict.fromkeys(range(seen), (1,))
    with pytest.raises(ProtocolError, match="already has 3 partitions"):
        made.add_partitions("t", 3, None)
    made.add_partitions("t", 6, None)
    after = assignment(session, "t")
    assert list(after) == list(range(6))
    assert before.items() <= after.items()


def test_internal_topics_use_brokers_unknown_to_the_view():
    session, made = topics([None])
    register(session, 0, 1, 2)
    made.create_automatically(OFFSETS_TOPIC)
    assert len(assignment(session, OFFSETS_TOPIC)[0]) == 3


def handlers(session=None, deleting=(), **topics):
    services = SimpleNamespace(
        session=session or InstantSession(),
        view=SimpleNamespace(topics=SimpleNamespace(deleting=deleting)),
        topics=SimpleNamespace(**topics),
    )
    return TopicsHandlers(services)


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
def test_disabled_deletion_has_an_error_known_to_the_client(version, code):
    # KafkaApis.handleDeleteTopicsRequest of genuine brokers.
    def delete(name):
        raise ProtocolError(code=ErrorCode.TOPIC_DELETION_DISABLED)

    answer = handlers(delete=delete).delete_topics(
        DeleteTopicsRequest(["t"]), handler_context(version)
    )
    assert [each.error_code for each in answer.topics] == [code]


@pytest.mark.parametrize("moving", [False, True])
def test_partitions_are_not_added_during_moves_or_deletion(moving):
    # AdminManager.createPartitions and KafkaApis.handleCreatePartitionsRequest of genuine brokers.
    session = InstantSession()
    if moving:
        session.create(paths.REASSIGN_PARTITIONS, b"{}", parents=True)
    made = handlers(session, deleting={"gone"}, add_partitions=lambda *_, **__: None)
    wanted = [NewPartitions(name, 2) for name in ("t", "gone", "twice", "twice")]
    request = CreatePartitionsRequest(wanted, validate_only=True)
    answer = made.create_partitions(request, handler_context(1))
    assert {each.topic: each.error_code for each in answer.topics} == {
        "t": ErrorCode.REASSIGNMENT_IN_PROGRESS if moving else ErrorCode.NONE,
        "gone": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "twice": ErrorCode.INVALID_REQUEST,
    }
