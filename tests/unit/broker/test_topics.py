"""Topics that brokers create on demand."""

import logging
from types import SimpleNamespace

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.broker.topics import Topics
from zkbroker.config.broker import BrokerConfig
from zkbroker.errors import ErrorCode, ProtocolError
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
def test_racks_count_on_demand_where_all_brokers_name_one(caplog, racks, without):
    session, made = topics(racks)
    with caplog.at_level(logging.WARNING):
        made.create_automatically("t")
    assert len(assignment(session, "t")[0]) == 2
    told = [record.message for record in caplog.records]
    if without is None:
        assert told == []
    else:
        assert told == [
            "topic=t was placed without regard to racks: set broker.rack on brokers 3 too"
        ]


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
def test_brokers_count_that_the_view_does_not_have_yet(wanted):
    session, made = topics([None])
    register(session, 0, 1, 2)
    made.create("t", **wanted)
    replicas = assignment(session, "t")[0]
    assert len(replicas) == wanted.get("replication_factor", 2)
    with pytest.raises(ProtocolError, match="larger than available brokers: 3") as refused:
        made.create("u", partitions=1, replication_factor=4)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_topics_grow_onto_brokers_that_the_view_does_not_have_yet():
    session, made = topics([None])
    register(session, 0, 1)
    made.create("t", partitions=1)
    made.add_partitions("t", 2, None)
    made.add_partitions("t", 3, [[1, 0]])
    assert [len(replicas) for replicas in assignment(session, "t").values()] == [2, 2, 2]


def test_internal_topics_have_replicas_on_brokers_that_the_view_does_not_have_yet():
    session, made = topics([None])
    register(session, 0, 1, 2)
    made.create_automatically(OFFSETS_TOPIC)
    assert len(assignment(session, OFFSETS_TOPIC)[0]) == 3
