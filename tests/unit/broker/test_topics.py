"""Topics that brokers create on demand."""

import logging
from types import SimpleNamespace

import pytest

from tests.support.instant_session import InstantSession
from zkbroker.broker.capacity import PartitionCapacity
from zkbroker.broker.topics import Topics
from zkbroker.config.broker import BrokerConfig
from zkbroker.registry.topics import assignment


def topics(racks):
    session = InstantSession()
    view = SimpleNamespace(
        topics=SimpleNamespace(assignments={}),
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
