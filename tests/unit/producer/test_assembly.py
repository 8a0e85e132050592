"""Producers made from a configuration, and errors of unreachable servers."""

import pytest

from tests.support.process import run_program
from tests.support.producers import RUNTIMES
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import RegistryError
from zkbroker.producer import Producer


def test_unreachable_zookeeper_raises_registry_error():
    config = ProducerConfig(zookeeper_connect="127.0.0.1:1", zookeeper_connect_timeout_ms=300)
    with pytest.raises(RegistryError, match=r"no ZooKeeper answered at 127\.0\.0\.1:1"):
        Producer(config)


@RUNTIMES
def test_producer_works_in_monkey_patched_program(fake, runtime):
    program = """
        import gevent.monkey; gevent.monkey.patch_all()
        import sys
        import gevent
        from zkbroker.config.producer import ProducerConfig
        from zkbroker.producer import (KeyedMessage, Producer)
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
    done = run_program(program, fake.addresses, runtime)
    assert done.stdout.strip() == "done", done.stderr
    assert len(fake.values("t", 0)) == 200


def test_import_patches_nothing_and_starts_no_thread():
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
