"""A measurement that is interrupted."""

import signal
import threading
import time

from click.testing import CliRunner

from tests.support.process import wait_until
from zkbroker import producer
from zkbroker.cli.main import cli


class SlowProducer:
    """Interrupts the main thread at the first messages, as Ctrl-C does."""

    sent = 0

    def __init__(self, config):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        pass

    def send(self, messages):
        if not SlowProducer.sent:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        SlowProducer.sent += len(messages)
        time.sleep(0.001)


def test_interrupted_measurement_publishes_no_more(monkeypatch):
    monkeypatch.setattr(producer, "Producer", SlowProducer)
    before = set(threading.enumerate())
    options = ["-b", "127.0.0.1:1", "-t", "t", "--messages", "20000000"]
    # A shell starts background processes with the signal ignored.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        ran = CliRunner().invoke(cli, ["perf", "produce", *options])
    finally:
        signal.signal(signal.SIGINT, handler)
    assert ran.exit_code != 0
    assert wait_until(lambda: set(threading.enumerate()) <= before)
    assert SlowProducer.sent < 20_000_000
