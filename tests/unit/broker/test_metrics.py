import pytest

from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.measures import BOUNDS_MS, OTHER


def test_topics_beyond_the_limit_are_counted_together():
    metrics = BrokerMetrics(max_topics=2)
    for name in ("a", "b", "c", "d", "a"):
        metrics.topic(name).messages_in += 1
    assert {name: topic.messages_in for name, topic in metrics.topics.items()} == {
        "a": 2,
        "b": 1,
        OTHER: 2,
    }
    assert dict(metrics.totals())["MessagesInPerSec"] == 5


def test_deleted_topic_frees_its_counter():
    metrics = BrokerMetrics(max_topics=1)
    metrics.topic("a").bytes_in += 1
    metrics.forget_topic("a")
    metrics.forget_topic(OTHER)
    metrics.topic("b").bytes_in += 1
    assert metrics.topics["b"].bytes_in == 1
    assert OTHER in metrics.topics


def test_requests_are_counted_by_api():
    metrics = BrokerMetrics()
    assert metrics.request(0) is metrics.request(0)
    assert metrics.request(0) is not metrics.request(1)


def test_gathered_times_are_counted_when_read():
    api = BrokerMetrics().request(0)
    for number in range(1000):
        api.gathered_s.append((0.0001, 0.002, 0.0, 0.0, number / 1000))
    queue, local, remote, send, total = api.times()
    assert [each.count for each in (queue, local, remote, send, total)] == [1000] * 5
    assert queue.sum_ms == pytest.approx(100)
    assert local.buckets[BOUNDS_MS.index(2.5)] == 1000
    assert total.sum_ms == pytest.approx(499_500)
    api.gathered_s.append((0.0, 0.0, 0.0, 0.0, 0.0))
    assert api.times()[0].count == 1001
