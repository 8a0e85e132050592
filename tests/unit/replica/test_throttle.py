"""Replication throttles: the lists of throttled replicas, and the rate."""

import pytest

from tests.support.clocks import Clock
from tests.support.replicas import PlainRuntime
from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError
from zkbroker.log import TopicPartition
from zkbroker.replica.throttle import ReplicationThrottle, names_replica

T1 = TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("text", "named"),
    [("", False), ("*", True), ("1:2", True), ("0:1, 1:2", True), ("1:1,2:2", False)],
)
def test_list_names_replica(text, named):
    settings = LogConfig().with_topic_overrides({"follower.replication.throttled.replicas": text})
    assert names_replica(settings.follower_throttled_replicas, T1, 2) is named


@pytest.mark.parametrize("text", ["x", "1", "1:2,", "1:-2", "*,1:2", "1:2 3:4"])
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_invalid_lists_are_refused(side, text):
    with pytest.raises(ConfigError, match="partition:broker"):
        LogConfig().with_topic_overrides({f"{side}.replication.throttled.replicas": text})


def test_topic_values_contain_lists():
    set_to = {"leader.replication.throttled.replicas": "0:1"}
    values = LogConfig().with_topic_overrides(set_to).topic_values()
    assert values["leader.replication.throttled.replicas"] == "0:1"
    assert values["follower.replication.throttled.replicas"] == ""


def test_rate_is_kept_over_time():
    clock = Clock()
    throttle = ReplicationThrottle(PlainRuntime(clock))
    throttle.rate = 1000
    taken = 0
    for _ in range(30_000):
        if not throttle.exceeded:
            throttle.record(150)
            taken += 150
        clock.now += 10
    assert taken == pytest.approx(300_000, rel=0.05)


def test_large_response_exceeds_rate_for_its_duration():
    clock = Clock()
    throttle = ReplicationThrottle(PlainRuntime(clock))
    throttle.rate = 1000
    assert not throttle.exceeded
    throttle.record(5000)
    for _ in range(5):
        assert throttle.exceeded
        clock.now += 1000
    assert not throttle.exceeded


def test_bytes_before_window_do_not_count():
    clock = Clock()
    throttle = ReplicationThrottle(PlainRuntime(clock), windows=3, window_ms=100)
    throttle.rate = 1
    throttle.record(10**9)
    assert throttle.exceeded
    clock.now += 300
    assert not throttle.exceeded


@pytest.mark.parametrize(
    ("text", "rate"), [(None, None), ("5000", 5000), ("0", None), ("-1", None), ("x", None)]
)
def test_rate_setting_is_parsed(text, rate):
    throttle = ReplicationThrottle(PlainRuntime())
    throttle.set_rate("7")
    throttle.set_rate(text)
    assert throttle.rate == rate
    throttle.record(10**9)
    assert throttle.exceeded is (rate is not None)
