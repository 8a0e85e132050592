"""A leader throttles followers that are out of sync; with real logs."""

import pytest

from tests.support.broker_requests import fetch_partition
from tests.support.clocks import Clock
from tests.support.handler_services import handler_context, handler_services
from tests.support.logs import message_set, started
from tests.support.replicas import PlainRuntime, decided
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.log import TopicPartition
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import FetchRequestTopic
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.partition import Partition
from zkbroker.replica.throttle import ReplicationThrottle
from zkbroker.runtime import get_runtime

T0 = TopicPartition("t", 0)


class ThrottledLeader:
    """Broker 1, which leads t-0 with 20 records of 1000 bytes and a rate of 1000 bytes a second."""

    def __init__(self, logs, throttled_replicas):
        self.clock = Clock()
        self.throttle = ReplicationThrottle(PlainRuntime(self.clock))
        self.throttle.rate = 1000
        settings = {"leader.replication.throttled.replicas": throttled_replicas}
        runtime = get_runtime("threads")
        partition = Partition(T0, 1, runtime=runtime, settings=LeaderSettings(lag_ms=1000))
        partition.open(logs.get_or_create(T0, settings), 0)
        partition.become_leader(decided(1, 0, (1, 2), (1, 2, 3)))
        for _ in range(20):
            partition.leadership().append(bytearray(message_set(1, size=1000)))
        services = handler_services({T0: partition}, runtime)
        self.metrics = services.metrics
        self.handler = FetchHandler(services, self.throttle)

    def fetch(self, replica_id):
        """Return the number of bytes in the response."""
        asked = fetch_partition(0, epoch=0, log_start_offset=0, max_bytes=5000)
        request = FetchRequest(replica_id=replica_id, topics=[FetchRequestTopic("t", [asked])])
        (answer,) = self.handler(request, handler_context(11)).topics[0].partitions
        assert answer.error_code == 0
        size = 0 if answer.records is None else len(answer.records)
        if hasattr(answer.records, "close"):
            answer.records.close()
        return size


@pytest.mark.parametrize("throttled_replicas", ["*", "0:1", "1:2,0:1"])
def test_out_of_sync_follower_is_throttled(tmp_path, throttled_replicas):
    with started(tmp_path) as logs:
        leader = ThrottledLeader(logs, throttled_replicas)
        assert leader.fetch(3) == 5000
        assert leader.fetch(3) == 0
        assert leader.fetch(2) == 5000, "in sync"
        assert leader.fetch(-1) == 0, "a consumer below the high watermark"
        leader.clock.now += 6000
        assert leader.fetch(3) == 5000
        assert leader.metrics.replication_bytes_out == 15_000


@pytest.mark.parametrize("throttled_replicas", ["", "0:3", "1:1"])
def test_replicas_not_listed_are_not_throttled(tmp_path, throttled_replicas):
    with started(tmp_path) as logs:
        leader = ThrottledLeader(logs, throttled_replicas)
        assert [leader.fetch(3) for _ in range(3)] == [5000] * 3


def test_followers_are_not_throttled_without_a_rate(tmp_path):
    with started(tmp_path) as logs:
        leader = ThrottledLeader(logs, "*")
        leader.throttle.rate = None
        assert [leader.fetch(3) for _ in range(3)] == [5000] * 3
