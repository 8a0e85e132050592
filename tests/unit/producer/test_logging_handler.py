"""Log records as messages."""

import logging

import pytest

from tests.support.fake_broker import FakeCluster
from tests.support.producers import RUNTIMES, hold_produce, make
from zkbroker.errors import ConfigError
from zkbroker.producer import ZkbrokerHandler


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


def test_logging_to_full_queue_neither_waits_nor_raises(capsys):
    with FakeCluster() as fake:
        fake.create("logs", [0])
        gate = hold_produce(fake)
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


def test_logging_handler_requires_async_producer():
    with FakeCluster() as fake, make(fake) as producer:
        with pytest.raises(ConfigError, match=r"producer\.type=async"):
            ZkbrokerHandler("logs", producer=producer)
        with pytest.raises(ConfigError):
            ZkbrokerHandler("logs")
