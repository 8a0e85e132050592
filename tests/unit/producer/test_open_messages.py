"""Messages without an outcome fail with a reason when the producer closes."""

import pytest

from tests.support.fake_broker import HANG, FakeCluster
from tests.support.producers import RUNTIMES, asynchronous
from zkbroker.errors import ErrorCode
from zkbroker.producer import Cancelled, KeyedMessage, Undelivered
from zkbroker.protocol import ApiKey


@RUNTIMES
@pytest.mark.parametrize(
    ("leader", "fault", "reason"),
    [
        (None, None, "t-0 has no leader: its replicas are on broker 0"),
        (
            0,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            "the last failure: broker 0, topic t partition 0: NOT_ENOUGH_REPLICAS",
        ),
        (0, HANG, "no broker has answered yet"),
    ],
)
def test_message_cancelled_by_close_fails_with_reason(runtime, leader, fault, reason):
    with FakeCluster(1) as fake:
        fake.create("t", [leader])
        fake.faults[ApiKey.PRODUCE, 0] = lambda request: fault
        options = {"message_send_max_retries": 10_000, "request_timeout_ms": 600_000}
        producer = asynchronous(fake, runtime, **options)
        future = producer.send(KeyedMessage("t", b"x"))
        with pytest.raises(Undelivered):
            producer.close(1.0)
        error = future.exception(0)
        assert isinstance(error, Cancelled)
        assert reason in str(error)
