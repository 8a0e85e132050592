"""How much replication may take."""

import pytest

from tests.support.replicas import PlainRuntime, ReplicaClock
from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError
from zkbroker.log import TopicPartition
from zkbroker.replica.throttle import ReplicationThrottle, names_replica

T1 = TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("text", "named"),
    [("", False), ("*", True), ("1:2", True), ("0:1, 1:2", True), ("1:1,2:2", False)],
)
def test_which_replicas_are_named(text, named):
    settings = LogConfig().with_topic_overrides({"follower.replication.throttled.replicas": text})
    assert names_replica(settings.follower_throttled_replicas, T1, 2) is named


@pytest.mark.parametrize("text", ["x", "1", "1:2,", "1:-2", "*,1:2", "1:2 3:4"])
@pytest.mark.parametrize("side", ["leader", "follower"])
def test_other_lists_are_refused(side, text):
    with pytest.raises(ConfigError, match="partition:broker"):
        LogConfig().with_topic_overrides({f"{side}.replication.throttled.replicas": text})


def test_lists_are_described_as_they_were_set():
    set_to = {"leader.replication.throttled.replicas": "0:1"}
    values = LogConfig().with_topic_overrides(set_to).topic_values()
    assert values["leader.replication.throttled.replicas"] == "0:1"
    assert values["follower.replication.throttled.replicas"] == ""


def test_the_rate_is_kept_over_time():
    clock = ReplicaClock()
    throttle = ReplicationThrottle(PlainRuntime(clock))
    throttle.rate = 1000
    taken = 0
    for _ in range(30_000):
        if not throttle.exceeded:
            throttle.record(150)
            taken += 150
        clock.now += 10
    assert taken == pytest.approx(300_000, rel=0.05)


def test_a_large_answer_is_made_up_for():
    clock = ReplicaClock()
    throttle = ReplicationThrottle(PlainRuntime(clock))
    throttle.rate = 1000
    assert not throttle.exceeded
    throttle.record(5000)
    for _ in range(5):
        assert throttle.exceeded
        clock.now += 1000
    assert not throttle.exceeded


def test_what_is_long_ago_does_not_count():
    clock = ReplicaClock()
    throttle = ReplicationThrottle(PlainRuntime(clock), windows=3, window_ms=100)
    throttle.rate = 1
    throttle.record(10**9)
    assert throttle.exceeded
    clock.now += 300
    assert not throttle.exceeded


@pytest.mark.parametrize(
    ("text", "rate"), [(None, None), ("5000", 5000), ("0", None), ("-1", None), ("x", None)]
)
def test_rates_as_operators_write_them(text, rate):
    throttle = ReplicationThrottle(PlainRuntime())
    throttle.set_rate("7")
    throttle.set_rate(text)
    assert throttle.rate == rate
    throttle.record(10**9)
    assert throttle.exceeded is (rate is not None)
