"""Full queues, closing, exits, forks and logging."""

import gc
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous, make
from zkbroker.config.producer import ProducerConfig
from zkbroker.discovery import NoBrokersAvailable
from zkbroker.errors import ConfigError, ErrorCode, RegistryError, RequestTimedOut, protocol_error
from zkbroker.producer import (
    Cancelled,
    DeliveryTimedOut,
    ForkedProducer,
    KeyedMessage,
    MessageTooLarge,
    Producer,
    ProducerClosed,
    QueueFull,
    Undelivered,
    ZkbrokerHandler,
)
from zkbroker.producer.link import BrokerLink
from zkbroker.producer.outcomes import gave_up
from zkbroker.producer.run import Run
from zkbroker.producer.sender import Sender
from zkbroker.protocol import ApiKey


def block(fake: FakeCluster) -> threading.Event:
    """Have brokers answer no produce request until the event is set."""
    gate = threading.Event()
    for broker_id in fake.brokers:
        fake.faults[ApiKey.PRODUCE, broker_id] = lambda request: gate.wait(WAIT_S) and None
    return gate


@RUNTIMES
def test_a_callback_that_fails_costs_nobody_an_outcome(runtime, caplog):
    def fail(future):
        raise LookupError("of the user's")

    with FakeCluster() as fake:
        fake.create("t", [0])
        gate = block(fake)
        with asynchronous(fake, runtime, max_in_flight_requests_per_connection=1) as producer:
            first = producer.send(KeyedMessage("t", b"1"))
            first.add_done_callback(fail)
            gate.set()
            assert first.result(WAIT_S).offset == 0
            assert producer.send(KeyedMessage("t", b"2")).result(WAIT_S).offset == 1
            producer.flush(WAIT_S)
            assert producer.metrics()["unresolved_messages"] == 0
    assert caplog.text.count("callback failed") == 1


@RUNTIMES
def test_no_lock_is_held_while_a_callback_runs(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        gate = block(fake)
        free = []

        def look(future):
            lock = producer._sender._settling._lock
            free.append(lock.acquire(blocking=False))
            if free[-1]:
                lock.release()

        with asynchronous(fake, runtime) as producer:
            producer.send(KeyedMessage("t", b"stored")).add_done_callback(look)
            gate.set()
            producer.flush(WAIT_S)
            fake.faults[ApiKey.PRODUCE, 0] = lambda request: ErrorCode.INVALID_REQUIRED_ACKS
            refused = producer.send(KeyedMessage("t", b"refused"))
            refused.add_done_callback(look)
            assert refused.exception(WAIT_S) is not None
        assert free == [True, True]


@RUNTIMES
def test_a_full_queue_fails_at_once_when_told_not_to_wait(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        gate = block(fake)
        options = {"queue_size": 10, "queue_enqueueTimeout_ms": 0}
        with asynchronous(fake, runtime, **options) as producer:
            for _ in range(10):
                producer.send(KeyedMessage("t", b"x"))
            with pytest.raises(QueueFull, match=r"queue\.buffering\.max\.messages=10"):
                producer.send(KeyedMessage("t", b"x"))
            gate.set()
        assert len(fake.values("t", 0)) == 10


@RUNTIMES
def test_a_full_queue_makes_send_wait_for_space(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        with asynchronous(fake, runtime, queue_size=10, queue_time=3_600_000) as producer:
            # 10 never make a batch of 200: that somebody waits must send them.
            for i in range(100):
                producer.send(KeyedMessage("t", b"%d" % i))
                assert producer.metrics()["unresolved_messages"] <= 10
        assert fake.values("t", 0) == [b"%d" % i for i in range(100)]


@RUNTIMES
def test_an_interrupted_send_leaves_nothing_that_close_would_wait_for(runtime, monkeypatch):
    def interrupted(run, index, message):
        raise KeyboardInterrupt

    with FakeCluster() as fake:
        fake.create("t", [0])
        with asynchronous(fake, runtime) as producer:
            producer.send(KeyedMessage("t", b"0"))
            with monkeypatch.context() as ctrl_c, pytest.raises(KeyboardInterrupt):
                ctrl_c.setattr(Run, "keep", interrupted)
                producer.send(KeyedMessage("t", b"lost", headers=(("h", b""),)))
            producer.send(KeyedMessage("t", b"1"))
            producer.flush()
            assert producer.metrics()["unresolved_messages"] == 0
            assert producer.metrics()["unresolved_bytes"] == 0
        assert fake.values("t", 0) == [b"0", b"1"]


@pytest.mark.parametrize("place", [(BrokerLink, "_transmit"), (Sender, "_dispatch")])
def test_nobody_waits_for_a_greenlet_that_ctrl_c_came_to(place, monkeypatch):
    # Python raises KeyboardInterrupt in whichever greenlet runs, also in one of the producer's own;
    # gevent passes it on to the main greenlet as well.
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with FakeCluster() as fake:
        fake.create("t", [0])
        producer = asynchronous(fake, "gevent")
        monkeypatch.setattr(*place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.send(KeyedMessage("t", b"x")).result(WAIT_S)
        with pytest.raises(Undelivered, match="KeyboardInterrupt"):
            producer.close(WAIT_S)


def test_a_broker_without_disk_is_not_told_to_start():
    error = gave_up("t", "topic t partition 0", 4, protocol_error(56), uncertain=False)
    assert "the disk of this partition, which may be full" in str(error)


@RUNTIMES
def test_the_queue_is_bounded_in_bytes_too(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        gate = block(fake)
        options = {"queue_buffering_max_bytes": 5000, "queue_enqueue_timeout_ms": 20}
        with asynchronous(fake, runtime, **options) as producer:
            with pytest.raises(QueueFull, match=r"queue\.buffering\.max\.bytes=5000"):
                for _ in range(100):
                    producer.send(KeyedMessage("t", b"x" * 1000))
            assert producer.metrics()["unresolved_bytes"] <= 5000
            gate.set()


@RUNTIMES
def test_a_message_larger_than_a_request_may_be_fails_at_once(runtime):
    with (
        FakeCluster() as fake,
        asynchronous(fake, runtime, max_request_size=1000) as producer,
        pytest.raises(MessageTooLarge, match=r"max\.request\.size=1000"),
    ):
        producer.send(KeyedMessage("t", b"x" * 1000))


@RUNTIMES
def test_close_returns_within_its_time_and_cancels_what_is_left(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        gate = block(fake)
        producer = asynchronous(fake, runtime)
        future = producer.send(KeyedMessage("t", b"x"))
        started = time.monotonic()
        with pytest.raises(Undelivered, match="1 messages were not delivered"):
            producer.close(1.0)
        assert time.monotonic() - started < WAIT_S
        assert isinstance(future.exception(0), Cancelled)
        producer.close(1.0)
        gate.set()


@RUNTIMES
def test_a_closed_producer_refuses(runtime):
    with FakeCluster() as fake:
        producer = asynchronous(fake, runtime)
        producer.close()
        with pytest.raises(ProducerClosed):
            producer.send(KeyedMessage("t", b"x"))


@RUNTIMES
def test_whoever_waits_for_space_is_told_that_the_producer_closed(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        gate = block(fake)
        producer = asynchronous(fake, runtime, queue_size=1)
        producer.send(KeyedMessage("t", b"x"))
        outcome = []

        def wait() -> None:
            try:
                producer.send(KeyedMessage("t", b"y"))
            except ProducerClosed as error:
                outcome.append(error)

        task = producer._runtime.spawn(wait, name="waits")
        while not producer._sender.inbox.starved:
            producer._runtime.sleep(0.01)
        with pytest.raises(Undelivered):
            producer.close(0.5)
        assert task.join(WAIT_S)
        assert len(outcome) == 1
        gate.set()


@RUNTIMES
def test_a_message_that_gets_too_old_fails_with_the_setting(runtime):
    with FakeCluster() as fake:
        fake.create("t", [None])
        options = {"retries": 1_000_000, "delivery_timeout_ms": 200}
        with asynchronous(fake, runtime, **options) as producer:
            future = producer.send(KeyedMessage("t", b"x"))
            with pytest.raises(DeliveryTimedOut, match=r"delivery\.timeout\.ms=200"):
                future.result(WAIT_S)


@RUNTIMES
def test_a_broker_that_does_not_answer_is_left_after_the_request_timeout(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        gate = block(fake)
        options = {"request_timeout_ms": 200, "retries": 0}
        with asynchronous(fake, runtime, **options) as producer:
            future = producer.send(KeyedMessage("t", b"x"))
            error = future.exception(WAIT_S)
            assert "may be stored" in str(error)
            gate.set()


@RUNTIMES
def test_a_result_that_is_waited_for_too_shortly_says_so(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        gate = block(fake)
        with asynchronous(fake, runtime) as producer:
            future = producer.send(KeyedMessage("t", b"x"))
            with pytest.raises(RequestTimedOut, match="still under way"):
                future.result(0.05)
            gate.set()
            assert future.result(WAIT_S).offset == 0


@RUNTIMES
def test_callbacks_run_once_whether_added_before_or_after(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        with asynchronous(fake, runtime, queue_time=50) as producer:
            future = producer.send(KeyedMessage("t", b"x"))
            seen = []
            future.add_done_callback(seen.append)
            future.result(WAIT_S)
            future.add_done_callback(seen.append)
            producer.flush(WAIT_S)
        assert seen == [future, future]


@RUNTIMES
def test_failures_that_nobody_looked_at_are_raised_by_close(runtime):
    with FakeCluster() as fake:
        producer = asynchronous(fake, runtime)
        ignored = producer.send(KeyedMessage("none", b"ignored"))
        seen = producer.send(KeyedMessage("none", b"seen"))
        assert seen.exception(WAIT_S) is not None
        assert ignored.done()
        with pytest.raises(Undelivered) as caught:
            producer.close()
        assert [m.message for m in caught.value.messages] == [b"ignored"]


@RUNTIMES
def test_flush_waits_for_all_and_raises_what_failed(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        with asynchronous(fake, runtime, queue_time=3_600_000) as producer:
            producer.send(KeyedMessage("t", b"x"))
            producer.flush(WAIT_S)
            assert fake.values("t", 0) == [b"x"]
            producer.send(KeyedMessage("none", b"y"))
            with pytest.raises(Undelivered, match="topic none"):
                producer.flush(WAIT_S)


def test_many_tasks_send_at_once_and_nothing_is_lost():
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


# -- no cluster


def test_no_zookeeper_is_a_clear_error():
    config = ProducerConfig(zookeeper_connect="127.0.0.1:1", zookeeper_connect_timeout_ms=300)
    with pytest.raises(RegistryError, match=r"no ZooKeeper answered at 127\.0\.0\.1:1"):
        Producer(config)


def test_a_wrong_broker_address_is_a_clear_error():
    config = ProducerConfig(broker_list=("127.0.0.1:1",), connect_timeout_ms=300)
    with pytest.raises(NoBrokersAvailable, match="correct the addresses"):
        Producer(config)


# -- the process


def run_program(source: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_what_is_queued_at_the_interpreters_exit_is_delivered(runtime):
    program = """
        import sys
        from zkbroker.config.producer import ProducerConfig
        from zkbroker.producer import KeyedMessage, Producer
        config = ProducerConfig.from_properties(
            {"metadata.broker.list": sys.argv[1], "producer.type": "async", "queue.time": "60000"}
        )
        producer = Producer(config, runtime=sys.argv[2])
        for i in range(100):
            producer.send(KeyedMessage("t", b"%d" % i))
    """
    with FakeCluster() as fake:
        fake.create("t", [0])
        done = run_program(program, fake.addresses, runtime)
        assert done.returncode == 0, done.stderr
        assert fake.values("t", 0) == [b"%d" % i for i in range(100)]


def test_what_is_lost_at_exit_is_said():
    program = """
        import logging, sys
        logging.basicConfig()
        from zkbroker.config.producer import ProducerConfig
        from zkbroker.producer import KeyedMessage, Producer
        config = ProducerConfig.from_properties(
            {"metadata.broker.list": sys.argv[1], "producer.type": "async",
             "close.timeout.ms": "300", "retries": "1000000"}
        )
        Producer(config).send(KeyedMessage("t", b"x"))
    """
    with FakeCluster() as fake:
        fake.create("t", [None])
        done = run_program(program, fake.addresses)
        assert "messages lost at exit" in done.stderr


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_the_producer_works_in_a_program_that_is_monkey_patched(runtime):
    program = """
        import gevent.monkey; gevent.monkey.patch_all()
        import sys
        import gevent
        from zkbroker.config.producer import ProducerConfig
        from zkbroker.producer import KeyedMessage, Producer
        config = ProducerConfig.from_properties(
            {"metadata.broker.list": sys.argv[1], "producer.type": "async", "queue.time": "5"}
        )
        with Producer(config, runtime=sys.argv[2]) as producer:
            def work(n):
                return [producer.send(KeyedMessage("t", b"%d" % n)).result(20) for _ in range(20)]
            jobs = [gevent.spawn(work, n) for n in range(10)]
            assert sum(len(job.get()) for job in jobs) == 200
        print("done")
    """
    with FakeCluster() as fake:
        fake.create("t", [0])
        done = run_program(program, fake.addresses, runtime)
        assert done.stdout.strip() == "done", done.stderr
        assert len(fake.values("t", 0)) == 200


def test_importing_the_producer_patches_and_starts_nothing():
    program = """
        import threading, socket
        before = (socket.socket, threading.Thread.start, threading.active_count())
        import zkbroker.producer
        assert before == (socket.socket, threading.Thread.start, threading.active_count())
        import sys
        assert "gevent" not in sys.modules
    """
    done = run_program(program)
    assert done.returncode == 0, done.stderr


@RUNTIMES
def test_a_forked_child_is_told_to_make_its_own_producer(runtime):
    with FakeCluster() as fake:
        fake.create("t", [0])
        with asynchronous(fake, runtime, queue_time=3_600_000) as producer:
            producer.send(KeyedMessage("t", b"parent"))
            pid = os.fork()
            if pid == 0:
                try:
                    producer.send(KeyedMessage("t", b"child"))
                except ForkedProducer:
                    os._exit(17)
                os._exit(1)
            _, status = os.waitpid(pid, 0)
            assert os.waitstatus_to_exitcode(status) == 17
        assert fake.values("t", 0) == [b"parent"]


# -- logging


@RUNTIMES
def test_log_records_are_published(runtime):
    with FakeCluster() as fake:
        fake.create("logs", [0])
        config = {"metadata.broker.list": fake.addresses, "queue.time": "5"}
        handler = ZkbrokerHandler("logs", config, key="name", runtime=runtime)
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger = logging.getLogger("test.published")
        logger.propagate = False
        logger.addHandler(handler)
        try:
            logger.warning("hello %s", "wörld")
            logging.getLogger("zkbroker.test").addHandler(handler)
            logging.getLogger("zkbroker.test").error("not this one")
            handler.flush()
            (record,) = fake.log("logs", 0).records
            assert record.value == "WARNING hello wörld".encode()
            assert record.key == b"test.published"
        finally:
            logging.getLogger("zkbroker.test").removeHandler(handler)
            logger.removeHandler(handler)
            handler.close()


def test_logging_never_waits_or_raises(capsys):
    with FakeCluster() as fake:
        fake.create("logs", [0])
        gate = block(fake)
        config = {"metadata.broker.list": fake.addresses, "queue.size": "2"}
        handler = ZkbrokerHandler("logs", config)
        logger = logging.getLogger("test.full")
        logger.propagate = False
        logger.addHandler(handler)
        try:
            for _ in range(5):
                logger.warning("x")
            assert "QueueFull" in capsys.readouterr().err
        finally:
            logger.removeHandler(handler)
            gate.set()
            handler.close()


def test_a_logging_handler_needs_an_async_producer():
    with FakeCluster() as fake, make(fake) as producer:
        with pytest.raises(ConfigError, match=r"producer\.type=async"):
            ZkbrokerHandler("logs", producer=producer)
        with pytest.raises(ConfigError):
            ZkbrokerHandler("logs")


def test_a_dropped_producer_still_delivers():
    with FakeCluster() as fake:
        fake.create("t", [0])
        producer = asynchronous(fake, queue_time=200)
        future = producer.send(KeyedMessage("t", b"x"))
        del producer
        gc.collect()
        assert future.result(WAIT_S).offset == 0
