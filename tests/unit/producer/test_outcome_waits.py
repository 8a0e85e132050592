"""Failed messages in the results of a sync send and of a flush."""

import time

import pytest

from tests.support.producers import RUNTIMES, WAIT_S, asynchronous
from zkbroker.errors import RequestTimedOut
from zkbroker.producer import KeyedMessage, MessageTooLarge, SendFailed
from zkbroker.producer.outcome_waits import failures_of, wait_for


@RUNTIMES
def test_failed_and_stored_messages_are_reported(fake, runtime):
    fake.max_message_bytes = 1000
    with asynchronous(fake, runtime) as producer:
        futures = [producer.send(KeyedMessage("t", x)) for x in (b"a", b"x" * 2000)]
        queued = {id(future.queued): future.queued for future in futures}
        ((message, error),) = failures_of(queued.values(), time.monotonic() + WAIT_S)
        assert (len(message.message), type(error)) == (2000, MessageTooLarge)
        refused = [(KeyedMessage("t", b"r"), ValueError("refused"))]
        with pytest.raises(SendFailed) as caught:
            wait_for(futures, refused)
        assert [each.message for each, _ in caught.value.sent] == [b"a"]
        assert [len(each.message) for each, _ in caught.value.failed] == [1, 2000]
        assert wait_for(futures[:1])[0].offset == 0


@RUNTIMES
def test_outcome_not_known_in_time_raises_request_timed_out(fake, runtime):
    with asynchronous(fake, runtime, queue_time=60_000) as producer:
        future = producer.send(KeyedMessage("t", b"a"))
        with pytest.raises(RequestTimedOut):
            failures_of([future.queued], time.monotonic())
