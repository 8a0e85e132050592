"""Metadata: how long one request creates topics."""

from types import SimpleNamespace

import pytest

from zkbroker.broker.handlers import metadata
from zkbroker.broker.handlers.metadata import MetadataHandler
from zkbroker.protocol.messages import MetadataRequest


@pytest.fixture
def created(monkeypatch):
    """Topics that were created, each of which took two seconds."""
    made: list[str] = []
    clock = SimpleNamespace(monotonic=lambda: 2.0 * len(made))
    monkeypatch.setattr(metadata, "time", clock)
    return made


@pytest.fixture
def handler(created):
    view = SimpleNamespace(
        topics=SimpleNamespace(assignments={}, deleting=set()),
        brokers={},
        cluster_id="c",
        awaits_decision=lambda name: False,
        assignment=lambda name: None,
    )
    services = SimpleNamespace(
        view=view,
        controller_id=lambda: 0,
        config=SimpleNamespace(auto_create_topics=True),
        topics=SimpleNamespace(create_automatically=created.append),
    )
    return MetadataHandler(services)


CONTEXT = SimpleNamespace(api_version=4, listener="PLAINTEXT", paced=iter)


def test_one_request_creates_topics_for_some_seconds_and_the_rest_when_asked_again(
    handler, created
):
    names = [f"t{n}" for n in range(5)]
    answer = handler(MetadataRequest(topics=names, allow_auto_topic_creation=True), CONTEXT)
    assert [(each.topic, each.error_code) for each in answer.topics] == [(n, 5) for n in names]
    assert created == names[:3]


def test_nothing_is_created_that_was_not_asked_for(handler, created):
    answer = handler(MetadataRequest(topics=["t"], allow_auto_topic_creation=False), CONTEXT)
    assert [each.error_code for each in answer.topics] == [3]
    assert created == []
