"""OffsetFetch v0: which topics are looked up in ZooKeeper."""

from types import SimpleNamespace

from tests.support.handler_services import handler_context
from zkbroker.broker.handlers import offsets
from zkbroker.broker.handlers.offsets import OffsetsHandlers
from zkbroker.protocol.messages import OffsetFetchRequest
from zkbroker.protocol.messages.offsets import OffsetFetchRequestTopic


def test_a_topic_that_the_view_does_not_have_is_read_once(monkeypatch):
    reads = []

    def read_assignment(session, topic):
        reads.append(topic)
        return {0: (1,), 1: (1,)}

    monkeypatch.setattr(offsets, "read_assignment", read_assignment)
    monkeypatch.setattr(
        offsets, "read_offsets", lambda session, group, keys: dict.fromkeys(keys, (7, None))
    )
    topics = SimpleNamespace(deleting=frozenset())
    view = SimpleNamespace(topics=topics, assignment=lambda topic: None)
    services = SimpleNamespace(view=view, session=None)
    asked = [("t", [0, 1]), ("no partitions", []), ("t", [2])]
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic(*each) for each in asked])
    answer = OffsetsHandlers(services, None, None).offset_fetch(request, handler_context(0))
    found = [
        (p.partition, p.offset, p.error_code) for each in answer.topics for p in each.partitions
    ]
    assert (found, reads) == ([(0, 7, 0), (1, 7, 0), (2, -1, 3)], ["t"])
