"""Producers at the exit of the interpreter and after a fork."""

import gc
import os

from tests.support.fake_broker import FakeCluster
from tests.support.process import run_program
from tests.support.producers import RUNTIMES, WAIT_S, asynchronous
from zkbroker.producer import ForkedProducer, KeyedMessage


@RUNTIMES
def test_queued_messages_are_delivered_at_interpreter_exit(fake, runtime):
    program = """
        import sys
        from zkbroker.config.producer import ProducerConfig
        from zkbroker.producer import (KeyedMessage, Producer)
        config = ProducerConfig.from_properties(
            {"metadata.broker.list": sys.argv[1], "producer.type": "async", "queue.time": "60000"}
        )
        producer = Producer(config, runtime=sys.argv[2])
        for i in range(100):
            producer.send(KeyedMessage("t", b"%d" % i))
    """
    done = run_program(program, fake.addresses, runtime)
    assert done.returncode == 0, done.stderr
    assert fake.values("t", 0) == [b"%d" % i for i in range(100)]


def test_messages_lost_at_exit_are_logged():
    program = """
        import logging, sys
        logging.basicConfig()
        from zkbroker.config.producer import ProducerConfig
        from zkbroker.producer import (KeyedMessage, Producer, outcome_waits)
        # It cancels after 0.2 s, and may take the other 19.8 s.
        outcome_waits._CANCEL_SHARE, outcome_waits._CANCEL_MOST_S = 0.99, 60.0
        config = ProducerConfig.from_properties(
            {"metadata.broker.list": sys.argv[1], "producer.type": "async",
             "close.timeout.ms": "20000", "retries": "1000000"}
        )
        Producer(config).send(KeyedMessage("t", b"x"))
    """
    with FakeCluster() as fake:
        fake.create("t", [None])
        done = run_program(program, fake.addresses)
        assert "messages lost at exit" in done.stderr


@RUNTIMES
def test_forked_child_cannot_use_producer_of_parent(fake, runtime):
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


def test_forked_child_cannot_flush_producer_of_parent(fake):
    with asynchronous(fake) as producer:
        pid = os.fork()
        if pid == 0:
            try:
                producer.flush(0.1)
            except ForkedProducer:
                os._exit(17)
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 17


def test_producer_without_reference_still_delivers(fake):
    producer = asynchronous(fake, queue_time=200)
    future = producer.send(KeyedMessage("t", b"x"))
    del producer
    gc.collect()
    assert future.result(WAIT_S).offset == 0
