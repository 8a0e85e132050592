"""`zkbroker up` as a process."""

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

from tests.support.process import children, eventually, exists, resident_bytes, wait_until
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest, DescribeConfigsRequest
from zkbroker.protocol.messages.configs import DescribeConfigsResource
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.registry.brokers import list_brokers
from zkbroker.registry.topics import assignment, list_topics
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
def up(tmp_path, chroot):
    started = []

    def start(*arguments, own_zookeeper=False):
        where = () if own_zookeeper else ("--zookeeper", chroot)
        running = Up("--data", tmp_path / "data", *where, *arguments)
        started.append(running)
        return running

    yield start
    for running in started:
        if running.process.poll() is None:
            running.end(signal.SIGTERM)
        running.process.communicate()


def request_of(running, request):
    host, port = running.brokers[0].split(":")
    with BrokerConnection(get_runtime("threads"), host, int(port)) as connection:
        return connection.request(request)


def create_topic(running, topic):
    created = request_of(running, CreateTopicsRequest([topic], timeout_ms=20_000))
    assert created.topics[0].error_code == 0


def broker_pids(running):
    def is_broker(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as command:
            return b"zkbroker.cli\0broker" in command.read()

    return [pid for pid in running.pids if is_broker(pid)]


def test_three_brokers_are_registered_and_replicate_new_topics(up):
    running = up("--brokers", 3)
    assert len(running.brokers) == 3
    assert sorted(registered_brokers(running)) == [1, 2, 3]
    for pid in broker_pids(running):
        assert resident_bytes(pid) < 100_000_000
    create_topic(running, NewTopic("t", -1, -1))
    asked = DescribeConfigsRequest([DescribeConfigsResource(2, "t", ["min.insync.replicas"])])
    (answer,) = request_of(running, asked).resources
    assert [each.value for each in answer.entries] == ["2"]
    with ZkSession(running.zookeeper) as session:
        assert {len(each) for each in (assignment(session, "t") or {}).values()} == {3}


def test_interrupt_stops_all_processes_cleanly_and_keeps_data(up, tmp_path):
    running = up("--brokers", 2, own_zookeeper=True)
    create_topic(running, NewTopic("kept", 1, 1))
    assert running.end(signal.SIGINT) == 0
    assert not any(exists(pid) for pid in running.pids)
    for broker_id in (1, 2):
        assert (tmp_path / "data" / f"broker-{broker_id}" / ".kafka_cleanshutdown").exists()
    again = up("--brokers", 2, own_zookeeper=True)
    assert sorted(registered_brokers(again)) == [1, 2]
    with ZkSession(again.zookeeper) as session:
        assert list_topics(session) == ["kept"]


def test_children_end_with_a_killed_parent(up):
    running = up(own_zookeeper=True)
    running.end(signal.SIGKILL)
    assert wait_until(lambda: not any(exists(pid) for pid in running.pids))


def registered_brokers(running):
    """Return the ids of the registered brokers, whose addresses are those that were printed."""
    with ZkSession(running.zookeeper) as session:
        registered = list_brokers(session)
    assert {f"{b.host}:{b.port}" for b in registered.values()} == set(running.brokers)
    return registered


def kill_first_broker(running):
    pid = broker_pids(running)[0]
    subprocess.run(["kill", "-9", str(pid)], check=True)
    died = running.process.stderr.readline()
    return int(
        re.match(r"broker (\d) was ended by SIGKILL \(its log is .*\); .*the others", died)[1]
    )


def test_failed_broker_is_reported_and_restarted(up):
    running = up("--brokers", 2)
    others = set(broker_pids(running)[1:])
    number = kill_first_broker(running)
    assert running.process.stderr.readline() == f"broker {number} serves again\n"
    assert all(exists(pid) for pid in others)
    running.pids = children(running.process.pid)
    assert len(broker_pids(running)) == 2
    assert others < set(broker_pids(running))
    assert len(registered_brokers(running)) == 2
    assert running.end(signal.SIGINT) == 0


def test_failed_broker_is_not_restarted_with_no_restart(up):
    running = up("--brokers", 2, "--no-restart")
    others = set(broker_pids(running)[1:])
    number = kill_first_broker(running)
    with ZkSession(running.zookeeper) as session:
        assert wait_until(lambda: number not in list_brokers(session))
        assert len(list_brokers(session)) == 1
    assert all(exists(pid) for pid in others)
    assert running.process.poll() is None
    assert running.end(signal.SIGINT) == 0


def test_failed_zookeeper_is_restarted(up):
    running = up(own_zookeeper=True)
    (zookeeper,) = set(running.pids) - set(broker_pids(running))
    subprocess.run(["kill", "-9", str(zookeeper)], check=True)
    assert running.process.stderr.readline().startswith("ZooKeeper has died; the others go on")
    assert running.process.stderr.readline() == "ZooKeeper serves again\n"
    running.pids = children(running.process.pid)
    assert len(broker_pids(running)) == 1


def test_script_starts_beside_a_directory_named_zkbroker(tmp_path):
    (tmp_path / "zkbroker").mkdir()
    script = shutil.which("zkbroker", path=Path(sys.executable).parent)
    with subprocess.Popen(
        [script, "up"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        line = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert READY.match(line.rstrip()), running.communicate()
        running.communicate()


def test_used_port_is_an_error(tmp_path, chroot):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        where = ("--port", port, "--data", tmp_path, "--zookeeper", chroot)
        ran = subprocess.run(
            [sys.executable, "-m", "zkbroker.cli", "up", *where],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert ran.returncode == 1
    assert port in ran.stderr
    assert "in use" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_brokers_serve_0_7_from_separate_directories(up, tmp_path, tool):
    given = ("--brokers", 2, "--set", "legacy07.listener=127.0.0.1:0")
    running = up(*given, own_zookeeper=True)
    registry = f"{running.zookeeper}/kafka07"
    of_07 = ("--kafka-generation", "0.7", "-z", registry, "-t", "visits")
    tool("produce", *of_07, stdin="one\ntwo\n")
    # A 0.7 produce has no response: a topic appears, and is registered, some time later.
    with ZkSession(registry) as session:
        eventually(lambda: session.exists("/brokers/topics/visits"))
        eventually(lambda: session.children("/brokers/topics/visits"))
    read = ("consume", *of_07, "-o", "beginning", "-e")
    eventually(lambda: sorted(tool(*read).split()) == ["one", "two"])
    assert {each.name for each in (tmp_path / "data").glob("*-07")} == {
        "broker-1-07", "broker-2-07",
    }  # fmt: skip


def test_named_0_7_directory_belongs_to_the_first_broker(up, tmp_path, tree):
    settings = ("listener=127.0.0.1:0", f"zookeeper.chroot={tree.path}", f"log.dir={tmp_path}/old")
    up("--brokers", 2, *(part for each in settings for part in ("--set", f"legacy07.{each}")))
    assert {each.name for each in tmp_path.glob("old*")} == {"old", "old-broker-2"}


@contextmanager
def another_host(directory, zookeeper, **properties):
    """Run broker 21, which stands for another host."""
    given = {"broker.id": "21", "zookeeper.connect": zookeeper, **properties}
    broker = BrokerProcess(directory / "another-host", given)
    broker.start(60)
    try:
        yield
    finally:
        broker.stop()


def test_host_is_a_rack_with_one_broker_per_disk(up, zk, chroot, tmp_path):
    disks = [part for number in (1, 2) for part in ("--disk", tmp_path / f"disk{number}")]
    given = ("--first-id", 11, "--set", "default.replication.factor=1")
    running = up("--brokers", "per-disk", *disks, *given)
    registered = list_brokers(zk)
    assert {broker: each.rack for broker, each in registered.items()} == dict.fromkeys(
        (11, 12), socket.gethostname()
    )
    for number in (1, 2):
        assert (tmp_path / f"disk{number}" / f"broker-{10 + number}" / "meta.properties").exists()
    with another_host(tmp_path, chroot, **{"broker.rack": "another"}):
        create_topic(running, NewTopic("t", 6, 2))
        assert all(21 in each for each in (assignment(zk, "t") or {}).values())


def test_brokers_joining_others_without_racks_have_no_rack(up, zk, chroot, tmp_path):
    with another_host(tmp_path, chroot):
        running = up("--brokers", "per-core")
        assert running.process.stderr.readline().startswith("other brokers of this cluster name no")
        registered = list_brokers(zk)
    assert len(registered) == 1 + len(os.sched_getaffinity(0))
    assert {each.rack for each in registered.values()} == {None}


def test_systemd_template_starts_several_brokers_per_host(chroot, zk, tmp_path):
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
