"""The producer against fake brokers, on both runtimes."""

import threading
from contextlib import suppress

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, hold_produce, make
from zkbroker.producer import (
    CallbackHandler,
    Cancelled,
    KeyedMessage,
    MessageTooLarge,
    ProducerClosed,
    Undelivered,
)
from zkbroker.runtime import get_runtime

pytestmark = pytest.mark.usefixtures("each_intake")


@RUNTIMES
def test_sync_send_returns_record_metadata(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1])
        with make(fake, runtime) as producer:
            first = producer.send(KeyedMessage("t", b"one", partition=1, timestamp_ms=5))
            assert first == ("t", 1, 0, 5)
            many = producer.send([KeyedMessage("t", b"%d" % i, partition=1) for i in range(10)])
            assert [metadata.offset for metadata in many] == list(range(1, 11))
        assert fake.values("t", 1) == [b"one", *[b"%d" % i for i in range(10)]]


@RUNTIMES
def test_async_send_returns_futures_of_record_metadata(runtime):
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1])
        with asynchronous(fake, runtime) as producer:
            futures = [producer.send(KeyedMessage("t", b"%d" % i, key=b"k")) for i in range(500)]
            results = [future.result(WAIT_S) for future in futures]
        partition = results[0].partition
        assert [r.offset for r in results] == list(range(500))
        assert fake.values("t", partition) == [b"%d" % i for i in range(500)]


@RUNTIMES
def test_close_delivers_lingering_messages(fake, runtime):
    producer = asynchronous(fake, runtime, queue_time=3_600_000)
    futures = [producer.send(KeyedMessage("t", b"%d" % i)) for i in range(50)]
    producer.close(WAIT_S)
    assert all(future.done() for future in futures)
    assert len(fake.values("t", 0)) == 50


@RUNTIMES
def test_offset_is_unknown_with_acks_0(fake, runtime):
    with make(fake, runtime, request_required_acks=0) as producer:
        assert producer.send(KeyedMessage("t", b"x")).offset == -1


@RUNTIMES
def test_message_larger_than_max_request_size_is_refused(fake, runtime):
    with (
        asynchronous(fake, runtime, max_request_size=1000) as producer,
        pytest.raises(MessageTooLarge, match=r"max\.request\.size=1000"),
    ):
        producer.send(KeyedMessage("t", b"x" * 1000))


@RUNTIMES
def test_close_cancels_undelivered_messages_after_timeout(fake, runtime, cancelling_close):
    gate = hold_produce(fake)
    producer = asynchronous(fake, runtime)
    future = producer.send(KeyedMessage("t", b"x"))
    with pytest.raises(Undelivered, match="1 messages were not delivered"):
        producer.close(cancelling_close)
    assert isinstance(future.exception(0), Cancelled)
    producer.close()
    gate.set()


@RUNTIMES
def test_last_messages_wait_for_space_no_longer_than_close_may_take(fake, runtime, caplog):
    class Last(CallbackHandler):
        def last_batch_before_close(self):
            return [KeyedMessage("t", b"last")]

    gate = hold_produce(fake)
    options = {"queue.buffering.max.messages": 1, "queue.enqueue.timeout.ms": 20_000}
    producer = asynchronous(fake, runtime, plugins={"callback_handler": Last()}, **options)
    producer.send(KeyedMessage("t", b"x"))
    # On a busy machine the message is not even cancelled in time.
    with suppress(Undelivered):
        producer.close(0.5)
    gate.set()
    assert "last message refused" in caplog.text
    assert "stayed full for 20 s" not in caplog.text


@RUNTIMES
@pytest.mark.parametrize("acks", [0, 1])
def test_callback_can_close_producer(fake, runtime, acks):
    producer = asynchronous(fake, runtime, request_required_acks=acks)
    closed = get_runtime(runtime).event()

    def close(future):
        producer.close(0.2)
        closed.set()

    producer.send(KeyedMessage("t", b"x")).add_done_callback(close)
    assert closed.wait(WAIT_S)
    with pytest.raises(ProducerClosed):
        producer.send(KeyedMessage("t", b"y"))


@RUNTIMES
def test_unread_failures_are_raised_by_close(fake, runtime):
    producer = asynchronous(fake, runtime)
    ignored = producer.send(KeyedMessage("none", b"ignored"))
    read = producer.send(KeyedMessage("none", b"read"))
    assert read.exception(WAIT_S) is not None
    assert ignored.done()
    with pytest.raises(Undelivered) as caught:
        producer.close()
    assert [m.message for m in caught.value.messages] == [b"ignored"]


@RUNTIMES
def test_flush_waits_for_all_messages_and_raises_failures(fake, runtime):
    with asynchronous(fake, runtime, queue_time=3_600_000) as producer:
        producer.send(KeyedMessage("t", b"x"))
        producer.flush(WAIT_S)
        assert fake.values("t", 0) == [b"x"]
        producer.send(KeyedMessage("none", b"y"))
        with pytest.raises(Undelivered, match="topic none"):
            producer.flush(WAIT_S)


@RUNTIMES
def test_flush_of_closed_producer_finds_no_open_message(fake, runtime):
    producer = asynchronous(fake, runtime)
    producer.send(KeyedMessage("t", b"x"))
    producer.close()
    producer.flush(0.1)
    assert fake.values("t", 0) == [b"x"]


@RUNTIMES
def test_flush_ends_with_the_loop_that_would_answer_it(fake, runtime, monkeypatch):
    producer = asynchronous(fake, runtime)
    sender = producer._sender
    post = sender.post

    def post_and_end(function, *args):
        # The loop takes no function after its end, which comes before this one.
        if function.__name__ == "collect":
            post(sender._end, lambda reason: None, None)
        else:
            post(function, *args)

    monkeypatch.setattr(sender, "post", post_and_end)
    producer.flush(WAIT_S)
    producer.close()


def test_concurrent_sends_are_all_stored():
    with FakeCluster(2) as fake:
        fake.create("t", [0, 1])
        with asynchronous(fake, queue_size=500) as producer:

            def run(number: int) -> None:
                for i in range(500):
                    producer.send(KeyedMessage("t", b"%d-%d" % (number, i), partition=number % 2))

            threads = [threading.Thread(target=run, args=(n,)) for n in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for number in range(6):
            mine = [v for v in fake.values("t", number % 2) if v.startswith(b"%d-" % number)]
            assert mine == [b"%d-%d" % (number, i) for i in range(500)]
