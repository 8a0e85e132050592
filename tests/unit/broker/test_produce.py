from types import SimpleNamespace

import pytest

from zkbroker.broker.handlers.produce import ProduceHandler
from zkbroker.broker.metrics import BrokerMetrics, TopicMetrics
from zkbroker.config.log import LogConfig
from zkbroker.errors import ErrorCode, RequestTimedOut
from zkbroker.protocol import ApiKey, RequestHeader
from zkbroker.protocol.messages import ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import MessageSetBuilder


class SlowLog:
    """A log whose disk takes longer than anybody waits."""

    config = LogConfig()

    def __init__(self):
        self.waited = []

    def append(self, data):
        return SimpleNamespace(
            duplicate=False,
            count=1,
            size_bytes=len(data),
            base_offset=5,
            last_offset=5,
            log_append_time_ms=-1,
            log_start_offset=0,
        )

    def wait_durable(self, last_offset, timeout_s=None):
        self.waited.append(timeout_s)
        if timeout_s is not None:
            raise RequestTimedOut("the disk is slow")


def produce(log, timeout_ms, acks=1):
    hosted = SimpleNamespace(log=log, metrics=TopicMetrics())
    services = SimpleNamespace(
        hosting=SimpleNamespace(get=lambda topic, number: hosted), metrics=BrokerMetrics()
    )
    builder = MessageSetBuilder(2)
    builder.append(None, b"x")
    records = memoryview(bytearray(builder.build()))
    request = ProduceRequest(
        None, acks, timeout_ms, [ProduceRequestTopic("t", [ProduceRequestPartition(0, records)])]
    )
    response = ProduceHandler(services)(request, RequestHeader(ApiKey.PRODUCE, 7, 1, "c"), None)
    return None if response is None else response.topics[0].partitions[0]


@pytest.mark.parametrize("acks", [1, -1])
def test_a_disk_slower_than_the_requests_time_out_is_error_7(acks):
    log = SlowLog()
    answer = produce(log, 1500, acks)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert log.waited == [1.5]


def test_without_a_time_out_the_answer_waits_for_the_disk():
    log = SlowLog()
    answer = produce(log, 0)
    assert (answer.error_code, answer.base_offset) == (0, 5)
    assert log.waited == [None]


def test_acks_0_waits_for_nothing():
    log = SlowLog()
    assert produce(log, 1500, acks=0) is None
    assert log.waited == []
