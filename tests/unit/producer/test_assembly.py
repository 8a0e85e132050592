"""From a configuration to a producer: what cannot work says so."""

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.process import run_program
from zkbroker.client import NoBrokersAvailable
from zkbroker.config.producer import ProducerConfig
from zkbroker.errors import RegistryError
from zkbroker.producer import (
    Producer,
)


def test_no_zookeeper_is_a_clear_error():
    config = ProducerConfig(zookeeper_connect="127.0.0.1:1", zookeeper_connect_timeout_ms=300)
    with pytest.raises(RegistryError, match=r"no ZooKeeper answered at 127\.0\.0\.1:1"):
        Producer(config)


def test_a_wrong_broker_address_is_a_clear_error():
    config = ProducerConfig(broker_list=("127.0.0.1:1",), connect_timeout_ms=300)
    with pytest.raises(NoBrokersAvailable, match="correct the addresses"):
        Producer(config)


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_the_producer_works_in_a_program_that_is_monkey_patched(runtime):
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
