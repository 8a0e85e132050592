"""Callback handlers, event handlers, interceptors and encoders of a user."""

import pytest

from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, held_loop, hold_produce, make
from zkbroker.errors import ErrorCode
from zkbroker.producer import (
    CallbackHandler,
    Dropped,
    EncodingFailed,
    HandlerFailed,
    Interceptor,
    KeyedMessage,
    QueueFull,
    SendFailed,
    Undelivered,
)
from zkbroker.protocol import ApiKey


class RecordingHandler(CallbackHandler):
    def __init__(self):
        self.hooks = []
        self.properties = None
        self.failed = []

    def init(self, properties):
        self.properties = properties

    def before_enqueue(self, message):
        self.hooks.append(("before_enqueue", message.message))
        return message

    def after_enqueue(self, message, added):
        self.hooks.append(("after_enqueue", message.message, added))

    def after_dequeue(self, messages):
        self.hooks.append(("after_dequeue", [m.message for m in messages]))
        return messages

    def before_send(self, messages):
        self.hooks.append(("before_send", [m.message for m in messages]))
        return messages

    def after_send(self, messages, metadata, error):
        offsets = [m.offset for m in metadata]
        self.hooks.append(("after_send", [m.message for m in messages], offsets, error))

    def last_batch_before_close(self):
        return [KeyedMessage("t", b"last")]

    def undelivered(self, failed):
        self.failed = list(failed)

    def close(self):
        self.hooks.append(("close",))


@RUNTIMES
def test_callback_handler_sees_every_stage_in_order(fake, runtime):
    recorder = RecordingHandler()
    with asynchronous(fake, runtime, plugins={"callback_handler": recorder}) as producer:
        producer.send(KeyedMessage("t", b"x")).result(WAIT_S)
        producer.flush(WAIT_S)
    assert fake.values("t", 0) == [b"x", b"last"]
    assert recorder.properties == {}
    first = [stage for stage in recorder.hooks if b"last" not in str(stage).encode()]
    assert first[0] == ("before_enqueue", b"x")
    assert ("after_enqueue", b"x", True) in first
    names = [stage[0] for stage in first]
    assert names.index("after_dequeue") < names.index("before_send") < names.index("after_send")
    assert ("after_send", [b"x"], [0], None) in first
    assert recorder.hooks[-1] == ("close",)


@RUNTIMES
def test_callback_handler_changes_drops_and_adds_messages(fake, runtime):
    class Editor(CallbackHandler):
        def before_enqueue(self, message):
            return KeyedMessage(message.topic, message.message + b"!", partition=0)

        def after_dequeue(self, messages):
            kept = [m for m in messages if m.message != b"drop!"]
            return [*kept, KeyedMessage("t", b"added", partition=0)]

        def before_send(self, messages):
            return [KeyedMessage("t", m.message.upper(), partition=0) for m in messages]

    plugins = {"callback_handler": Editor()}
    with asynchronous(fake, runtime, plugins=plugins, queue_time=3_600_000) as producer:
        futures = producer.send([KeyedMessage("t", x) for x in (b"a", b"drop", b"b")])
        with pytest.raises(Undelivered):
            producer.flush(WAIT_S)
        assert futures[0].result(WAIT_S).offset == 0
        assert isinstance(futures[1].exception(WAIT_S), Dropped)
        futures[2].result(WAIT_S)
    stored = fake.values("t", 0)
    assert stored[0] == b"A!"
    assert sorted(set(stored)) == [b"A!", b"ADDED", b"B!"]
    assert producer.metrics()["unresolved_messages"] == 0


@RUNTIMES
def test_message_that_was_sent_twice_has_two_outcomes(fake, runtime):
    plugins = {"callback_handler": CallbackHandler()}
    with asynchronous(fake, runtime, plugins=plugins, queue_time=3_600_000) as producer:
        message = KeyedMessage("t", b"x")
        futures = [producer.send(message), producer.send(message)]
        producer.flush(WAIT_S)
        assert [future.result(0).offset for future in futures] == [0, 1]
        assert producer.metrics()["unresolved_messages"] == 0
    assert fake.values("t", 0) == [b"x", b"x"]


@RUNTIMES
def test_handler_replaces_one_of_two_sends_of_a_message(fake, runtime):
    class Second(CallbackHandler):
        def before_send(self, messages):
            return [messages[0], KeyedMessage("t", b"new")]

    plugins = {"callback_handler": Second()}
    with asynchronous(fake, runtime, plugins=plugins, queue_time=3_600_000) as producer:
        futures = producer.send([KeyedMessage("t", b"x")] * 2)
        producer.flush(WAIT_S)
        assert [future.result(0).offset for future in futures] == [0, 1]
        assert producer.metrics()["unresolved_messages"] == 0
    assert fake.values("t", 0) == [b"x", b"new"]


@RUNTIMES
def test_handler_exception_fails_its_messages_and_names_handler(fake, runtime):
    class Broken(CallbackHandler):
        def before_send(self, messages):
            raise ValueError("no thanks")

    with make(fake, runtime, plugins={"callback_handler": Broken()}) as producer:
        with pytest.raises(SendFailed, match=r"Broken failed.*no thanks") as caught:
            producer.send(KeyedMessage("t", b"x"))
        assert isinstance(caught.value.failed[0][1], HandlerFailed)
        assert producer.metrics()["unresolved_messages"] == 0


@RUNTIMES
def test_event_handler_replaces_sending(fake, runtime):
    class Split:
        def __init__(self):
            self.taken = []

        def handle(self, messages, deliver):
            keep = [m for m in messages if m.message != b"mine"]
            self.taken += [m for m in messages if m.message == b"mine"]
            deliver([*keep, KeyedMessage("t", b"extra")])

    handler = Split()
    with asynchronous(fake, runtime, plugins={"event_handler": handler}) as producer:
        futures = producer.send([KeyedMessage("t", x) for x in (b"a", b"mine")])
        assert futures[0].result(WAIT_S).offset >= 0
        assert futures[1].result(WAIT_S).offset == -1
    assert b"mine" not in fake.values("t", 0)
    assert b"extra" in fake.values("t", 0)
    assert len(handler.taken) == 1


@RUNTIMES
def test_event_handler_takes_one_of_two_sends_of_a_message(fake, runtime):
    class First:
        def handle(self, messages, deliver):
            deliver(messages[:1])

    plugins = {"event_handler": First()}
    with asynchronous(fake, runtime, plugins=plugins) as producer:
        with held_loop(producer, runtime):
            futures = producer.send([KeyedMessage("t", b"x", partition=0)] * 2)
        assert [future.result(WAIT_S).offset for future in futures] == [0, -1]
    assert fake.values("t", 0) == [b"x"]


@RUNTIMES
def test_failing_event_handler_fails_messages_it_did_not_deliver(fake, runtime):
    class Broken:
        def handle(self, messages, deliver):
            deliver([each for each in messages if each.message == b"a"])
            raise RuntimeError("half way")

    with (
        make(fake, runtime, plugins={"event_handler": Broken()}) as producer,
        pytest.raises(SendFailed, match="half way") as caught,
    ):
        producer.send([KeyedMessage("t", b"a"), KeyedMessage("t", b"b")])
    assert [message.message for message, _ in caught.value.sent] == [b"a"]
    assert [message.message for message, _ in caught.value.failed] == [b"b"]


class FailsOnceEnqueued(CallbackHandler):
    def after_enqueue(self, message, added):
        raise ValueError("no thanks")


@RUNTIMES
def test_message_whose_after_enqueue_fails_is_sent_and_has_its_future(fake, runtime, caplog):
    plugins = {"callback_handler": FailsOnceEnqueued()}
    with asynchronous(fake, runtime, plugins=plugins) as producer:
        assert producer.send(KeyedMessage("t", b"x")).result(WAIT_S).offset == 0
    assert fake.values("t", 0) == [b"x"]
    assert "no thanks" in caplog.text


@RUNTIMES
def test_sync_send_whose_after_enqueue_fails_returns_the_place(fake, runtime):
    with make(fake, runtime, plugins={"callback_handler": FailsOnceEnqueued()}) as producer:
        assert [place.offset for place in producer.send([KeyedMessage("t", b"x")] * 2)] == [0, 1]


def test_full_queue_is_the_error_of_send_although_after_enqueue_fails(fake):
    gate = hold_produce(fake)
    plugins = {"callback_handler": FailsOnceEnqueued()}
    options = {"queue.buffering.max.messages": 1, "queue.enqueue.timeout.ms": 0}
    with asynchronous(fake, plugins=plugins, **options) as producer:
        producer.send(KeyedMessage("t", b"x"))
        with pytest.raises(QueueFull):
            producer.send(KeyedMessage("t", b"y"))
        gate.set()


@RUNTIMES
def test_interceptors_change_messages_in_order_and_see_every_outcome(fake, runtime):
    class Suffix(Interceptor):
        def __init__(self, suffix):
            self.suffix = suffix
            self.outcomes = []

        def on_send(self, message):
            message.message += self.suffix
            return message

        def on_acknowledgement(self, message, metadata, error):
            self.outcomes.append((message.message, metadata and metadata.offset, error))

    one, two = Suffix(b"1"), Suffix(b"2")
    with make(fake, runtime, plugins={"interceptors": [one, two]}) as producer:
        producer.send(KeyedMessage("t", b"x"))
        fake.faults[ApiKey.PRODUCE, 0] = lambda request: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        with pytest.raises(SendFailed, match="AUTHORIZATION"):
            producer.send(KeyedMessage("t", b"y"))
    assert fake.values("t", 0) == [b"x12"]
    assert one.outcomes[0] == (b"x12", 0, None)
    assert one.outcomes[1][0] == b"y12"
    assert one.outcomes[1][2].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert one.outcomes == two.outcomes


@RUNTIMES
def test_failing_encoder_raises_in_send_and_names_topic(fake, runtime):
    with asynchronous(fake, runtime) as producer:
        with pytest.raises(EncodingFailed, match=r"topic t.*serializer\.class"):
            producer.send(KeyedMessage("t", "text"))
        with pytest.raises(EncodingFailed):
            producer.send(KeyedMessage("t", b"x", key=1.5))


def test_undelivered_messages_are_raised_and_passed_to_handler(fake, cancelling_close):
    recorder = RecordingHandler()
    recorder.last_batch_before_close = list
    fake.create("t", [None])
    producer = asynchronous(fake, plugins={"callback_handler": recorder}, retries=1_000_000)
    for i in range(5):
        producer.send(KeyedMessage("t", b"%d" % i))
    with pytest.raises(Undelivered, match="5 messages were not delivered") as caught:
        producer.close(cancelling_close)
    assert caught.value.count == 5
    assert sorted(m.message for m in caught.value.messages) == [b"%d" % i for i in range(5)]
    assert len(recorder.failed) == 5
