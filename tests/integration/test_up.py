"""`zkbroker up` as a person at a terminal uses it."""

import re
import signal
import subprocess
import sys

import pytest

from tests.support.process import children, exists, resident_bytes, wait_until
from zkbroker.registry import ZkSession
from zkbroker.registry.brokers import list_brokers

READY = re.compile(
    r"^zkbroker ready zookeeper=(127\.0\.0\.1:\d+) "
    r"brokers=(127\.0\.0\.1:\d+(?:,127\.0\.0\.1:\d+)*)$"
)


class Up:
    """A running `zkbroker up`."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zkbroker.cli", "up", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.line = self.process.stdout.readline().rstrip("\n")
        ready = READY.match(self.line)
        assert ready, (self.line, self.process.communicate())
        self.zookeeper = ready.group(1)
        self.brokers = ready.group(2).split(",")
        self.pids = children(self.process.pid)

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def up(tmp_path):
    started = []

    def start(*arguments):
        running = Up("--data", tmp_path / "data", *arguments)
        started.append(running)
        return running

    yield start
    for running in started:
        if running.process.poll() is None:
            running.end(signal.SIGTERM)
        running.process.communicate()


def broker_pids(running):
    def is_broker(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return b"zkbroker.cli\0broker" in command.read()

    return [pid for pid in running.pids if is_broker(pid)]


def test_three_brokers_are_registered_and_small(up):
    running = up("--brokers", 3)
    assert len(running.brokers) == 3
    with ZkSession(running.zookeeper) as session:
        registered = list_brokers(session)
    assert {f"{b.host}:{b.port}" for b in registered.values()} == set(running.brokers)
    assert sorted(registered) == [1, 2, 3]
    for pid in broker_pids(running):
        assert resident_bytes(pid) < 100_000_000


def test_ctrl_c_stops_everything_cleanly(up, tmp_path):
    running = up("--brokers", 2)
    assert running.end(signal.SIGINT) == 0
    assert not any(exists(pid) for pid in running.pids)
    for broker_id in (1, 2):
        assert (tmp_path / "data" / f"broker-{broker_id}" / ".kafka_cleanshutdown").exists()


def test_nothing_outlives_a_killed_parent(up):
    running = up("--brokers", 2)
    running.end(signal.SIGKILL)
    assert wait_until(lambda: not any(exists(pid) for pid in running.pids))


def test_a_broker_that_dies_is_reported_and_ends_the_cluster(up):
    running = up("--brokers", 2)
    subprocess.run(["kill", "-9", str(broker_pids(running)[0])], check=True)
    assert running.process.wait(30) == 1
    assert re.search(r"error: broker \d has died", running.process.stderr.read())
    assert not any(exists(pid) for pid in running.pids)


def test_a_port_in_use_is_said(tmp_path, up):
    running = up()
    port = running.brokers[0].rpartition(":")[2]
    second = subprocess.run(
        [sys.executable, "-m", "zkbroker.cli", "up", "--port", port, "--data", tmp_path / "other"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert second.returncode == 1
    assert port in second.stderr
    assert "in use" in second.stderr
    assert "Traceback" not in second.stderr


def test_it_goes_on_where_it_stopped(up):
    first = up()
    first.end(signal.SIGINT)
    second = up()
    with ZkSession(second.zookeeper) as session:
        assert list(list_brokers(session)) == [1]
