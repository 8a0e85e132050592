"""Messages without an outcome fail with a reason when the producer closes."""

import pytest

from tests.support.fake_broker import HANG
from tests.support.producers import RUNTIMES, asynchronous
from zkbroker.errors import ErrorCode
from zkbroker.producer import Cancelled, KeyedMessage, Undelivered
from zkbroker.protocol import ApiKey
from zkbroker.runtime import get_runtime


@RUNTIMES
@pytest.mark.parametrize(
    ("leader", "fault", "api", "reason"),
    [
        (None, None, ApiKey.METADATA, "t-0 has no leader: its replicas are on broker 0"),
        (
            0,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ApiKey.PRODUCE,
            "the last failure: broker 0, topic t partition 0: NOT_ENOUGH_REPLICAS",
        ),
        (0, HANG, None, "no broker has answered yet"),
    ],
    ids=["no leader", "refused", "hanging"],
)
def test_message_cancelled_by_close_fails_with_reason(
    fake, runtime, cancelling_close, leader, fault, api, reason
):
    fake.create("t", [leader])
    fake.faults[ApiKey.PRODUCE, 0] = lambda request: fault
    options = {"message_send_max_retries": 10_000, "request_timeout_ms": 600_000}
    producer = asynchronous(fake, runtime, **options)
    future = producer.send(KeyedMessage("t", b"x"))
    # It asks a second time only once it has taken the first answer.
    requests = fake.brokers[0].requests
    times = 0 if api is None else 2
    while len([1 for key, _, request in requests if key is api and request.topics]) < times:
        get_runtime(runtime).sleep(0.01)
    with pytest.raises(Undelivered):
        producer.close(cancelling_close)
    error = future.exception(0)
    assert isinstance(error, Cancelled)
    assert reason in str(error)
