"""The loop of the sender: time-outs, and interrupts in its greenlets."""

import pytest

from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, hold_produce
from zkbroker.producer import (
    CallbackHandler,
    DeliveryTimedOut,
    HandlerFailed,
    KeyedMessage,
    Undelivered,
)
from zkbroker.producer.broker_channel import BrokerChannel
from zkbroker.producer.dispatch import ExchangeDispatcher
from zkbroker.producer.hooks import Hooks
from zkbroker.producer.routing import Router


@pytest.mark.parametrize(
    "place",
    [
        (Hooks, "dequeue"),
        (Router, "route"),
        (Router, "_place"),
        (ExchangeDispatcher, "dispatch"),
        (BrokerChannel, "_transmit"),
    ],
)
def test_keyboard_interrupt_in_greenlet_of_producer_fails_messages(fake, place, monkeypatch):
    # Python raises KeyboardInterrupt in whichever greenlet runs, also in one of the producer's own;
    # gevent passes it on to the main greenlet as well.
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    producer = asynchronous(fake, "gevent")
    monkeypatch.setattr(*place, interrupted)
    future = producer.send(KeyedMessage("t", b"x"))
    with pytest.raises(KeyboardInterrupt):
        future.result(WAIT_S)
    with pytest.raises(Undelivered, match="KeyboardInterrupt"):
        producer.close(WAIT_S)
    assert future.done()
    assert producer.metrics()["unresolved_messages"] == 0


@RUNTIMES
def test_handler_that_returns_no_list_fails_its_messages(fake, runtime):
    class Forgetful(CallbackHandler):
        def after_dequeue(self, messages):
            messages.sort(key=lambda message: message.message)

    with asynchronous(fake, runtime, plugins={"callback_handler": Forgetful()}) as producer:
        future = producer.send(KeyedMessage("t", b"x"))
        error = future.exception(WAIT_S)
        assert isinstance(error, HandlerFailed)
        assert "Forgetful failed" in str(error)
        assert producer.metrics()["unresolved_messages"] == 0


@RUNTIMES
def test_message_older_than_delivery_timeout_fails(fake, runtime):
    fake.create("t", [None])
    options = {"retries": 1_000_000, "delivery_timeout_ms": 200}
    with asynchronous(fake, runtime, **options) as producer:
        future = producer.send(KeyedMessage("t", b"x"))
        with pytest.raises(DeliveryTimedOut, match=r"delivery\.timeout\.ms=200"):
            future.result(WAIT_S)


@RUNTIMES
def test_silent_broker_is_left_after_request_timeout(fake, runtime):
    gate = hold_produce(fake)
    # The first readings of metadata have this time, too.
    options = {"request_timeout_ms": 1000, "retries": 0}
    with asynchronous(fake, runtime, **options) as producer:
        future = producer.send(KeyedMessage("t", b"x"))
        error = future.exception(WAIT_S)
        assert "may be stored" in str(error)
        gate.set()
