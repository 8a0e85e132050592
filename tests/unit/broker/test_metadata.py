"""Metadata: topics that requests create, and the endpoints of each listener."""

from types import SimpleNamespace

import pytest

from tests.support.handler_services import handler_context
from tests.unit.broker.test_view import topics
from zkbroker.broker.handlers import metadata
from zkbroker.broker.handlers.metadata import MetadataHandler
from zkbroker.broker.view import ClusterView
from zkbroker.protocol.messages import MetadataRequest
from zkbroker.protocol.messages.update_metadata import (
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from zkbroker.registry.brokers import BrokerInfo


@pytest.fixture
def created(monkeypatch):
    """Topics that were created, each of which took two seconds."""
    made = []
    clock = SimpleNamespace(monotonic=lambda: 2.0 * len(made))
    monkeypatch.setattr(metadata, "time", clock)
    return made


@pytest.fixture
def services(created):
    view = SimpleNamespace(
        topics=SimpleNamespace(assignments={}, deleting=set()),
        brokers={},
        cluster_id="c",
        awaits_decision=lambda name: False,
        assignment=lambda name: None,
    )
    return SimpleNamespace(
        view=view,
        controller_id=lambda: 0,
        config=SimpleNamespace(auto_create_topics=True),
        topics=SimpleNamespace(create_automatically=created.append),
    )


@pytest.fixture
def handler(services):
    return MetadataHandler(services)


CONTEXT = SimpleNamespace(api_version=4, listener="PLAINTEXT", paced=iter)


def test_time_of_topic_creation_in_one_request_is_bounded(handler, created):
    names = [f"t{n}" for n in range(5)]
    answer = handler(MetadataRequest(topics=names, allow_auto_topic_creation=True), CONTEXT)
    assert [(each.topic, each.error_code) for each in answer.topics] == [(n, 5) for n in names]
    assert created == names[:3]


def test_topic_is_not_created_when_the_request_forbids_it(handler, created):
    answer = handler(MetadataRequest(topics=["t"], allow_auto_topic_creation=False), CONTEXT)
    assert [each.error_code for each in answer.topics] == [3]
    assert created == []


def test_internal_topics_are_always_created(handler, created, services):
    services.config.auto_create_topics = False
    request = MetadataRequest(["__consumer_offsets", "t"], allow_auto_topic_creation=False)
    answer = handler(request, CONTEXT)
    assert [(each.error_code, each.is_internal) for each in answer.topics] == [
        (5, True),
        (3, False),
    ]
    assert created == ["__consumer_offsets"]


def test_topic_that_is_deleted_while_all_are_listed_is_not_created_again(
    handler, created, services
):
    assignments = services.view.topics.assignments
    assignments.update({"a": {}, "b": {}})
    services.view.assignment = assignments.get

    def deleting(names):
        for name in names:
            yield name
            assignments.pop("b", None)

    context = SimpleNamespace(api_version=4, listener="PLAINTEXT", paced=deleting)
    answer = handler(MetadataRequest(topics=None, allow_auto_topic_creation=True), context)
    assert ([each.topic for each in answer.topics], created) == (["a"], [])


LISTENING = {
    1: BrokerInfo(id=1, host="a", port=1, endpoints=("IN://a:1", "OUT://a:2")),
    2: BrokerInfo(id=2, host="b", port=1, endpoints=("IN://b:1",)),
}


@pytest.mark.parametrize(
    ("listener", "version", "brokers", "codes"),
    [
        ("IN", 5, [(1, 1), (2, 1)], [0, 0]),
        ("OUT", 5, [(1, 2)], [0, 5]),
        ("OUT", 6, [(1, 2)], [0, 72]),
        ("OTHER", 7, [], [72, 72]),
    ],
)
def test_metadata_lists_endpoints_of_the_clients_listener(listener, version, brokers, codes):
    view = ClusterView(LISTENING[1])
    view.set_brokers(LISTENING)
    view.set_topics(topics({"t": {0: (1, 2), 1: (2, 1)}}))
    states = [
        UpdateMetadataPartition("t", number, 1, leader, 0, [1, 2], 0, [1, 2])
        for number, leader in enumerate((1, 2))
    ]
    fence = SimpleNamespace(check=lambda *given: None)
    view.update(UpdateMetadataRequest(1, 1, partition_states=states), fence)
    services = SimpleNamespace(view=view, controller_id=lambda: 1, draining=False)
    context = handler_context(version)
    context.listener = listener
    answer = MetadataHandler(services)(MetadataRequest(["t"], False), context)
    assert [(each.node_id, each.port) for each in answer.brokers] == brokers
    rows = answer.topics[0].partitions
    assert [each.error_code for each in rows] == codes
    assert [each.leader for each in rows] == [
        -1 if code else number for number, code in zip((1, 2), codes, strict=True)
    ]
    assert [sorted(each.isr) for each in rows] == [[1, 2], [1, 2]]
