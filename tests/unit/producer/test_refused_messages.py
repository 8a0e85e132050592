"""Messages of handlers that cannot be sent: every message of the same call has one outcome."""

import pytest

from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, held_loop
from zkbroker.producer import (
    CallbackHandler,
    EncodingFailed,
    HandlerFailed,
    KeyedMessage,
    Undelivered,
)


class Adds(CallbackHandler):
    """Adds one valid message and `bad` to the messages that leave the queue."""

    def __init__(self, bad):
        self.bad = bad

    def after_dequeue(self, messages):
        return [*messages, KeyedMessage("t", b"added"), self.bad]


BAD_MESSAGES = pytest.mark.parametrize("bad", [KeyedMessage("t", 1.5), None])


@BAD_MESSAGES
@RUNTIMES
def test_added_message_that_cannot_be_sent_fails_the_given_ones(fake, runtime, bad):
    with asynchronous(fake, runtime, plugins={"callback_handler": Adds(bad)}) as producer:
        with held_loop(producer, runtime):
            futures = producer.send([KeyedMessage("t", x) for x in (b"a", b"b")])
        errors = [future.exception(WAIT_S) for future in futures]
        assert all(isinstance(error, EncodingFailed | HandlerFailed) for error in errors)
        assert producer.metrics()["unresolved_messages"] == 0
    assert fake.values("t", 0) == []


class Delivers:
    """Delivers the given messages with a valid one and `bad`; `caught` then decides."""

    def __init__(self, bad, caught):
        self.bad = bad
        self.caught = caught

    def handle(self, messages, deliver):
        try:
            deliver([*messages, KeyedMessage("t", b"added"), self.bad])
        except (EncodingFailed, TypeError):
            self.caught(messages, deliver)


@BAD_MESSAGES
@RUNTIMES
def test_messages_delivered_with_one_that_cannot_be_sent_fail_with_the_handler(fake, runtime, bad):
    def fail(messages, deliver):
        raise ValueError("no thanks")

    plugins = {"event_handler": Delivers(bad, fail)}
    with asynchronous(fake, runtime, plugins=plugins) as producer:
        with held_loop(producer, runtime):
            futures = producer.send([KeyedMessage("t", x) for x in (b"a", b"b")])
        errors = [future.exception(WAIT_S) for future in futures]
        assert all(isinstance(error, HandlerFailed) for error in errors)
        assert producer.metrics()["unresolved_messages"] == 0
    assert fake.values("t", 0) == []


@BAD_MESSAGES
@RUNTIMES
def test_event_handler_delivers_the_rest_after_a_message_that_cannot_be_sent(fake, runtime, bad):
    def deliver_rest(messages, deliver):
        deliver(messages)

    plugins = {"event_handler": Delivers(bad, deliver_rest)}
    with asynchronous(fake, runtime, plugins=plugins) as producer:
        with held_loop(producer, runtime):
            futures = producer.send([KeyedMessage("t", x, partition=0) for x in (b"a", b"b")])
        assert [future.result(WAIT_S).offset for future in futures] == [0, 1]
        assert producer.metrics()["unresolved_messages"] == 0
    assert fake.values("t", 0) == [b"a", b"b"]


class ToOther(CallbackHandler):
    """Gives messages that begin with x another topic, in one of the stages."""

    def __init__(self, stage):
        setattr(self, stage, self.change)

    def change(self, messages):
        return [
            KeyedMessage("other", m.message) if m.message.startswith(b"x") else m for m in messages
        ]


@pytest.mark.parametrize("stage", ["after_dequeue", "before_send"])
@RUNTIMES
def test_message_that_a_handler_moves_to_another_topic_fails_alone(fake, runtime, stage):
    fake.create("other", [0])
    plugins = {"callback_handler": ToOther(stage)}
    with asynchronous(fake, runtime, plugins=plugins, queue_time=3_600_000) as producer:
        with held_loop(producer, runtime):
            messages = [KeyedMessage("t", x, partition=0) for x in (b"a", b"x1", b"b", b"x2")]
            futures = producer.send(messages)
        with pytest.raises(Undelivered):
            producer.flush(WAIT_S)
        assert [futures[at].result(WAIT_S).offset for at in (0, 2)] == [0, 1]
        for at in (1, 3):
            error = futures[at].exception(WAIT_S)
            assert isinstance(error, HandlerFailed)
            assert "ToOther returned a message of another topic" in str(error)
        assert producer.metrics()["unresolved_messages"] == 0
    assert fake.values("t", 0) == [b"a", b"b"]
    assert fake.values("other", 0) == []


@pytest.mark.parametrize("stage", ["after_dequeue", "before_send"])
@RUNTIMES
def test_message_of_another_topic_may_be_added_before_batches_are_made(fake, runtime, stage):
    fake.create("other", [0])

    class Copies(CallbackHandler):
        def copy(self, messages):
            return [*messages, KeyedMessage("other", b"copy")]

    handler = Copies()
    setattr(handler, stage, handler.copy)
    with asynchronous(fake, runtime, plugins={"callback_handler": handler}) as producer:
        assert producer.send(KeyedMessage("t", b"a")).result(WAIT_S).offset == 0
    assert fake.values("t", 0) == [b"a"]
    assert fake.values("other", 0) == ([b"copy"] if stage == "after_dequeue" else [])
