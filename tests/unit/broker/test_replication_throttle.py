"""A leader that holds back followers which catch up, with real logs."""

from types import SimpleNamespace

import pytest

from tests.support.logs import message_set, started
from tests.support.replicas import PlainRuntime, ReplicaClock, decided
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import FetchRequestPartition, FetchRequestTopic
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.partition import Partition
from zkbroker.replica.throttle import ReplicationThrottle
from zkbroker.runtime import get_runtime

T0 = TopicPartition("t", 0)


class World:
    def __init__(self, logs, text):
        self.clock = ReplicaClock()
        self.throttle = ReplicationThrottle(PlainRuntime(self.clock))
        self.throttle.rate = 1000
        log = logs.get_or_create(T0, {"leader.replication.throttled.replicas": text})
        self.partition = Partition(
            T0, 1, runtime=get_runtime("threads"), settings=LeaderSettings(lag_ms=1000)
        )
        self.partition.open(log, 0)
        self.partition.become_leader(decided(1, 0, (1, 2), (1, 2, 3)))
        for _ in range(20):
            self.partition.leadership().append(bytearray(message_set(1, size=1000)))
        self.metrics = BrokerMetrics()
        self.handler = FetchHandler(
            SimpleNamespace(
                config=SimpleNamespace(fetch_session_slots=0, fetch_session_bytes=10**6),
                partition=lambda topic, number, *_, **__: self.partition,
                replicas=SimpleNamespace(partitions={}, get=lambda topic, number: self.partition),
                metrics=self.metrics,
                runtime=get_runtime("threads"),
                draining=False,
            ),
            self.throttle,
        )

    def fetch(self, replica_id):
        """Return how many bytes are answered."""
        asked = FetchRequestPartition(
            partition=0, current_leader_epoch=0, fetch_offset=0, log_start_offset=0, max_bytes=5000
        )
        request = FetchRequest(replica_id=replica_id, topics=[FetchRequestTopic("t", [asked])])
        context = SimpleNamespace(
            api_version=11, paced=lambda items: items, release_answer=lambda: None
        )
        (answer,) = self.handler(request, context).topics[0].partitions
        assert answer.error_code == 0
        size = 0 if answer.records is None else len(answer.records)
        if hasattr(answer.records, "close"):
            answer.records.close()
        return size


@pytest.mark.parametrize("text", ["*", "0:1", "1:2,0:1"])
def test_out_of_sync_follower_is_throttled(tmp_path, text):
    with started(tmp_path) as logs:
        world = World(logs, text)
        assert world.fetch(3) == 5000
        assert world.fetch(3) == 0
        assert world.fetch(2) == 5000, "in sync"
        assert world.fetch(-1) == 0, "a consumer below the high watermark"
        world.clock.now += 6000
        assert world.fetch(3) == 5000
        assert world.metrics.replication_bytes_out == 15_000


@pytest.mark.parametrize("text", ["", "0:3", "1:1"])
def test_replicas_not_listed_are_not_throttled(tmp_path, text):
    with started(tmp_path) as logs:
        world = World(logs, text)
        assert [world.fetch(3) for _ in range(3)] == [5000] * 3


def test_followers_are_not_throttled_without_a_rate(tmp_path):
    with started(tmp_path) as logs:
        world = World(logs, "*")
        world.throttle.rate = None
        assert [world.fetch(3) for _ in range(3)] == [5000] * 3
