"""`zkbroker up` as a person at a terminal uses it."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.process import children, exists, resident_bytes, wait_until
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest, DescribeConfigsRequest
from zkbroker.protocol.messages.configs import DescribeConfigsResource
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.topics import assignment
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import free_port

ROOT = Path(__file__).parents[2]
READY = re.compile(
    r"^zkbroker ready zookeeper=(127\.0\.0\.1:\d+(?:/\S+)?) "
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
        return self.process.wait(300)


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


def test_three_brokers_are_registered_and_small_and_topics_have_three_replicas(up):
    running = up("--brokers", 3)
    assert len(running.brokers) == 3
    with ZkSession(running.zookeeper) as session:
        registered = list_brokers(session)
    assert {f"{b.host}:{b.port}" for b in registered.values()} == set(running.brokers)
    assert sorted(registered) == [1, 2, 3]
    for pid in broker_pids(running):
        assert resident_bytes(pid) < 100_000_000
    host, port = running.brokers[0].split(":")
    with BrokerConnection(get_runtime("threads"), host, int(port)) as connection:
        made = CreateTopicsRequest([NewTopic("t", -1, -1)], timeout_ms=20_000)
        assert connection.request(made).topics[0].error_code == 0
        asked = DescribeConfigsRequest([DescribeConfigsResource(2, "t", ["min.insync.replicas"])])
        (answer,) = connection.request(asked).resources
    assert [each.value for each in answer.entries] == ["2"]
    with ZkSession(running.zookeeper) as session:
        assert {len(each) for each in (assignment(session, "t") or {}).values()} == {3}


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


def kill_one(running):
    pid = broker_pids(running)[0]
    subprocess.run(["kill", "-9", str(pid)], check=True)
    died = running.process.stderr.readline()
    return int(
        re.match(r"broker (\d) was ended by SIGKILL \(its log is .*\); .*the others", died)[1]
    )


def test_a_broker_that_dies_is_named_and_started_again(up):
    running = up("--brokers", 2)
    others = set(broker_pids(running)[1:])
    number = kill_one(running)
    assert running.process.stderr.readline() == f"broker {number} serves again\n"
    assert all(exists(pid) for pid in others)
    running.pids = children(running.process.pid)
    assert len(broker_pids(running)) == 2
    assert others < set(broker_pids(running))
    with ZkSession(running.zookeeper) as session:
        registered = list_brokers(session)
    assert {f"{b.host}:{b.port}" for b in registered.values()} == set(running.brokers)
    assert running.end(signal.SIGINT) == 0


def test_a_broker_that_dies_is_left_dead_where_that_is_asked_for(up):
    running = up("--brokers", 2, "--no-restart")
    others = set(broker_pids(running)[1:])
    number = kill_one(running)
    with ZkSession(running.zookeeper) as session:
        assert wait_until(lambda: number not in list_brokers(session))
        assert len(list_brokers(session)) == 1
    assert all(exists(pid) for pid in others)
    assert running.process.poll() is None
    assert running.end(signal.SIGINT) == 0


def test_a_zookeeper_that_dies_is_started_again(up):
    running = up()
    (zookeeper,) = set(running.pids) - set(broker_pids(running))
    subprocess.run(["kill", "-9", str(zookeeper)], check=True)
    assert running.process.stderr.readline().startswith("ZooKeeper has died; the others go on")
    assert running.process.stderr.readline() == "ZooKeeper serves again\n"
    running.pids = children(running.process.pid)
    assert len(broker_pids(running)) == 1


def test_it_starts_beside_a_directory_of_the_same_name(tmp_path):
    (tmp_path / "zkbroker").mkdir()
    script = shutil.which("zkbroker", path=Path(sys.executable).parent)
    with subprocess.Popen(
        [script, "up"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        line = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert READY.match(line.rstrip()), running.communicate()
        running.communicate()


def test_a_port_in_use_is_said(tmp_path, up):
    running = up()
    port = running.brokers[0].rpartition(":")[2]
    second = subprocess.run(
        [sys.executable, "-m", "zkbroker.cli", "up", "--port", port, "--data", tmp_path / "other"],
        capture_output=True,
        text=True,
        timeout=300,
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


def test_each_of_two_brokers_serves_0_7_from_a_directory_of_its_own(up, tmp_path):
    running = up("--brokers", 2, "--set", "legacy07.listener=127.0.0.1:0")
    registry = f"{running.zookeeper}/kafka07"
    of_07 = ("--kafka-generation", "0.7", "-z", registry, "-t", "visits")
    typed = [sys.executable, "-m", "zkbroker.cli"]
    subprocess.run([*typed, "produce", *of_07], input=b"one\ntwo\n", check=True)
    shown = subprocess.run(
        [*typed, "consume", *of_07, "-o", "beginning", "-c", "2"], capture_output=True, check=True
    )
    assert sorted(shown.stdout.split()) == [b"one", b"two"]
    assert {each.name for each in (tmp_path / "data").glob("*-07")} == {
        "broker-1-07", "broker-2-07",
    }  # fmt: skip


def test_a_directory_that_is_named_for_0_7_is_the_first_broker_s(up, tmp_path):
    old = tmp_path / "old"
    up("--brokers", 2, "--set", "legacy07.listener=127.0.0.1:0", "--set", f"legacy07.log.dir={old}")
    assert {each.name for each in tmp_path.glob("old*")} == {"old", "old-broker-2"}


@contextmanager
def another_host(directory, zookeeper, **properties):
    """Play another host: broker 21."""
    given = {"broker.id": "21", "zookeeper.connect": zookeeper, **properties}
    broker = BrokerProcess(directory / "another-host", given)
    broker.start(60)
    try:
        yield
    finally:
        broker.stop()


def test_each_host_is_a_rack_with_a_broker_for_each_disk(up, zk, chroot, tmp_path):
    disks = [part for number in (1, 2) for part in ("--disk", tmp_path / f"disk{number}")]
    running = up(
        "--brokers", "per-disk", "--first-id", 11, "--zookeeper", chroot, *disks,
        "--set", "default.replication.factor=1",
    )  # fmt: skip
    registered = list_brokers(zk)
    assert {broker: each.rack for broker, each in registered.items()} == dict.fromkeys(
        (11, 12), socket.gethostname()
    )
    for number in (1, 2):
        assert (tmp_path / f"disk{number}" / f"broker-{10 + number}" / "meta.properties").exists()
    with another_host(tmp_path, chroot, **{"broker.rack": "another"}):
        host, port = running.brokers[0].split(":")
        with BrokerConnection(get_runtime("threads"), host, int(port)) as connection:
            made = CreateTopicsRequest([NewTopic("t", 6, 2)], timeout_ms=20_000)
            assert connection.request(made).topics[0].error_code == 0
        assert all(21 in each for each in (assignment(zk, "t") or {}).values())


def test_brokers_that_join_others_without_racks_name_none(up, zk, chroot, tmp_path):
    with another_host(tmp_path, chroot):
        running = up("--brokers", "per-core", "--zookeeper", chroot)
        assert running.process.stderr.readline().startswith("other brokers of this cluster name no")
        registered = list_brokers(zk)
    assert len(registered) == 1 + len(os.sched_getaffinity(0))
    assert {each.rack for each in registered.values()} == {None}


def test_the_template_of_systemd_starts_brokers_beside_each_other(chroot, zk, tmp_path):
    unit = ROOT / "docker" / "systemd" / "zkbroker@.service"
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(encoding="utf-8"), re.MULTILINE)
    shared = tmp_path / "server.properties"
    shared.write_text(f"zookeeper.connect={chroot}\nhost.name=127.0.0.1\n", encoding="utf-8")

    def start(stack, port):
        typed = line.replace("%i", str(port)).replace("%H", "this-host").split()
        assert typed[:3] == [
            "/opt/zkbroker/bin/zkbroker", "broker", "/etc/zkbroker/server.properties",
        ]  # fmt: skip
        given = [each.replace("/var/lib/zkbroker", str(tmp_path)) for each in typed[3:]]
        command = [sys.executable, "-m", "zkbroker.cli", "broker", shared, *given]
        process = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
        stack.callback(process.terminate)
        assert process.stdout.readline().startswith("zkbroker broker ready")

    with ExitStack() as stack:
        ports = [free_port(), free_port()]
        for port in ports:
            start(stack, port)
        registered = list_brokers(zk)
    assert sorted(each.port for each in registered.values()) == sorted(ports)
    assert {each.rack for each in registered.values()} == {"this-host"}
