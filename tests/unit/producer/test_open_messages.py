"""What has no outcome when the producer closes is failed with the reason."""

import pytest

from tests.support.fake_broker import HANG, FakeCluster
from tests.support.producers import RUNTIMES, asynchronous
from zkbroker.errors import ErrorCode
from zkbroker.producer import Cancelled, KeyedMessage, Undelivered
from zkbroker.protocol import ApiKey


def cancelled(fake, runtime):
    """Return the error of a message that a producer could not deliver when it closed."""
    options = {"message_send_max_retries": 10_000, "request_timeout_ms": 600_000}
    producer = asynchronous(fake, runtime, **options)
    future = producer.send(KeyedMessage("t", b"x"))
    with pytest.raises(Undelivered):
        producer.close(1.0)
    error = future.exception(0)
    assert isinstance(error, Cancelled)
    return str(error)


@RUNTIMES
def test_cancelled_error_names_missing_leader(runtime):
    with FakeCluster(1) as fake:
        fake.create("t", [None])
        said = cancelled(fake, runtime)
    assert "t-0 has no leader: its replicas are on broker 0" in said


@RUNTIMES
def test_cancelled_error_names_last_broker_error(runtime):
    with FakeCluster(1) as fake:
        fake.create("t", [0])
        fake.faults[ApiKey.PRODUCE, 0] = lambda request: ErrorCode.NOT_ENOUGH_REPLICAS
        assert "the last failure: broker 0, topic t partition 0: NOT_ENOUGH_REPLICAS" in cancelled(
            fake, runtime
        )


@RUNTIMES
def test_cancelled_error_names_silent_broker(runtime):
    with FakeCluster(1) as fake:
        fake.create("t", [0])
        fake.faults[ApiKey.PRODUCE, 0] = lambda request: HANG
        assert "no broker has answered yet" in cancelled(fake, runtime)
