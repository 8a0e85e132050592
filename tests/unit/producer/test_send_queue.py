"""The bounded send queue: full, waiting, interrupted and closed."""

import threading
import traceback

import pytest

from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, hold_produce
from zkbroker.producer import (
    KeyedMessage,
    ProducerClosed,
    QueueFull,
    SendFuture,
    Undelivered,
)
from zkbroker.producer.queued_messages import QueuedMessages
from zkbroker.producer.send_queue import SendQueue
from zkbroker.runtime import get_runtime

pytestmark = pytest.mark.usefixtures("each_intake")


@RUNTIMES
def test_full_queue_raises_at_once_with_zero_timeout(fake, runtime):
    gate = hold_produce(fake)
    options = {"queue_size": 10, "queue_enqueueTimeout_ms": 0}
    with asynchronous(fake, runtime, **options) as producer:
        for _ in range(10):
            producer.send(KeyedMessage("t", b"x"))
        with pytest.raises(QueueFull, match=r"queue\.buffering\.max\.messages=10"):
            producer.send(KeyedMessage("t", b"x"))
        gate.set()
    assert len(fake.values("t", 0)) == 10


@RUNTIMES
def test_send_waits_for_space_in_full_queue(fake, runtime):
    with asynchronous(fake, runtime, queue_size=10, queue_time=3_600_000) as producer:
        # 10 messages are no full batch: only the waiting call makes the sender send them.
        for i in range(100):
            producer.send(KeyedMessage("t", b"%d" % i))
            assert producer.metrics()["unresolved_messages"] <= 10
    assert fake.values("t", 0) == [b"%d" % i for i in range(100)]


@RUNTIMES
def test_interrupted_send_leaves_no_open_message(fake, runtime, monkeypatch):
    def interrupted(queued, index, message):
        raise KeyboardInterrupt

    with asynchronous(fake, runtime) as producer:
        producer.send(KeyedMessage("t", b"0"))
        with monkeypatch.context() as ctrl_c, pytest.raises(KeyboardInterrupt):
            ctrl_c.setattr(QueuedMessages, "keep", interrupted)
            producer.send(KeyedMessage("t", b"lost", headers=(("h", b""),)))
        producer.send(KeyedMessage("t", b"1"))
        producer.flush()
        assert producer.metrics()["unresolved_messages"] == 0
        assert producer.metrics()["unresolved_bytes"] == 0
    assert fake.values("t", 0) == [b"0", b"1"]


@RUNTIMES
def test_queue_is_bounded_in_bytes(fake, runtime):
    gate = hold_produce(fake)
    options = {"queue_buffering_max_bytes": 5000, "queue_enqueue_timeout_ms": 20}
    with asynchronous(fake, runtime, **options) as producer:
        with pytest.raises(QueueFull, match=r"queue\.buffering\.max\.bytes=5000"):
            for _ in range(100):
                producer.send(KeyedMessage("t", b"x" * 1000))
        assert producer.metrics()["unresolved_bytes"] <= 5000
        gate.set()


@RUNTIMES
def test_close_raises_in_send_waiting_for_space(fake, runtime, cancelling_close):
    gate = hold_produce(fake)
    producer = asynchronous(fake, runtime, queue_size=1)
    producer.send(KeyedMessage("t", b"x"))
    outcome = []

    def wait() -> None:
        try:
            producer.send(KeyedMessage("t", b"y"))
        except ProducerClosed as error:
            outcome.append(error)

    task = producer._runtime.spawn(wait, name="waits")
    while not producer._sender.send_queue.starved:
        producer._runtime.sleep(0.01)
    with pytest.raises(Undelivered):
        producer.close(cancelling_close)
    assert task.join(WAIT_S)
    assert len(outcome) == 1
    gate.set()


RUNTIME = get_runtime("threads")


def test_refusal_keeps_no_frames_of_earlier_calls():
    refusal = ProducerClosed("closed")
    send_queue = SendQueue(RUNTIME, threading.Event(), 100, 10_000)
    send_queue.refuse(refusal)
    for call in (
        lambda: send_queue.put("t", (None, b"x", 0, ()), 1, None, 0),
        lambda: send_queue.reserve(1, 1),
    ):
        frames = set()
        for _ in range(3):
            with pytest.raises(ProducerClosed):
                call()
            frames.add(len(list(traceback.walk_tb(refusal.__traceback__))))
        assert len(frames) == 1


def test_sender_is_woken_at_requested_threshold():
    wake = threading.Event()
    send_queue = SendQueue(RUNTIME, wake, 100, 10_000)
    assert send_queue.rest(3)
    for i in range(2):
        send_queue.put("t", (None, b"x", i, ()), 10, None, 0)
    assert not wake.is_set()
    send_queue.put("t", (None, b"x", 2, ()), 10, None, 0)
    assert wake.is_set()
    assert not send_queue.rest(3)
    (queued,) = send_queue.drain()
    assert len(queued.records) == 3
    assert (send_queue.open_messages, send_queue.open_bytes) == (3, 30)
    send_queue.release(3, 30)
    assert (send_queue.open_messages, send_queue.open_bytes) == (0, 0)


def test_send_that_loses_the_space_to_others_again_and_again_still_waits(monkeypatch):
    runtime = get_runtime("threads")
    queue = SendQueue(runtime, runtime.event(), 1, 1000)
    queue.put("t", (None, b"a", 0, ()), 1, None, 0)
    waits = []

    def space_that_others_take(*_):
        waits.append(None)
        if len(waits) == 5000:
            queue.release(1, 1)

    monkeypatch.setattr(queue, "_wait_for_space", space_that_others_take)
    queue.put("t", (None, b"b", 0, ()), 1, None, None)
    assert len(waits) == 5000


def test_message_above_byte_bound_is_queued_alone():
    send_queue = SendQueue(RUNTIME, threading.Event(), 100, 50)
    send_queue.put("t", (None, b"x" * 80, 0, ()), 80, None, 0)
    with pytest.raises(Exception, match="stayed full"):
        send_queue.put("t", (None, b"x", 0, ()), 1, None, 0)


def test_messages_of_topic_share_list_and_special_messages_are_kept():
    send_queue = SendQueue(RUNTIME, threading.Event(), 100, 10_000)
    special = KeyedMessage("t", b"y", partition=1)
    send_queue.put("t", (None, b"x", 0, ()), 1, None, 0)
    send_queue.put("u", (None, b"x", 0, ()), 1, None, 0)
    future = send_queue.put("t", (None, b"y", 0, ()), 1, special, 0)
    first, second = send_queue.drain()
    assert (first.topic, len(first.records), second.topic) == ("t", 2, "u")
    assert not first.keyless
    assert second.keyless
    assert future.message is special
    assert SendFuture(first, 0).message.message == b"x"
