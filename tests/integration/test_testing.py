"""`zkbroker.testing`: clusters for tests of other projects."""

import os
import re
import subprocess
import sys
import threading

import pytest

from tests.support.markdown import ROOT
from tests.support.process import exists
from zkbroker.client import Cluster, StaticSource
from zkbroker.consumer import LATEST_TIME, SimpleConsumer
from zkbroker.errors import ZkbrokerError
from zkbroker.registry.brokers import list_brokers
from zkbroker.testing import LocalCluster
from zkbroker.testing.in_process import InProcessBroker
from zkbroker.zookeeper import ZkSession

MANUAL = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
TESTS = re.findall(r"<!-- test: ([\w-]+) -->\n+```python\n(.*?)```", MANUAL, re.DOTALL)


def test_examples_of_manual_pass_with_plugin(tmp_path):
    assert len(TESTS) == 2
    for name, code in TESTS:
        (tmp_path / f"test_{name}.py").write_text(code)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "zkbroker.testing.plugin", "."],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


def test_stopped_cluster_leaves_no_process_or_file():
    with LocalCluster(brokers=2) as cluster:
        directory = cluster.directory
        pids = [broker.pid for broker in cluster.brokers] + [cluster.embedded_zookeeper.pid]
        assert all(exists(pid) for pid in pids)
    assert not any(exists(pid) for pid in pids)
    assert not directory.exists()


@pytest.mark.parametrize("in_process", [False, True])
def test_running_cluster_ends_with_interpreter(in_process, tmp_path):
    program = (
        "from zkbroker.testing import LocalCluster\n"
        f"cluster = LocalCluster(in_process={in_process})\n"
        "cluster.start()\n"
        "print(cluster.embedded_zookeeper.pid)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not exists(int(ran.stdout))
    assert list(tmp_path.glob("zkbroker-*")) == []


def test_killed_and_paused_broker_returns_with_its_data(chroot):
    with LocalCluster(zookeeper=chroot) as cluster:
        topic = cluster.create_topic(partitions=2)
        broker = cluster.broker(1)
        host, port = broker.address
        broker.kill()
        assert not broker.alive
        broker.start()
        assert broker.address == (host, port)
        with SimpleConsumer(host, port) as consumer:
            assert consumer.get_offsets_before(topic, 1, LATEST_TIME, 1) == [0]
        broker.pause()
        broker.resume()
        assert broker.stop()


def test_broker_is_added_and_zookeeper_shared(chroot):
    with LocalCluster(zookeeper=chroot) as cluster:
        cluster.add_broker()
        with ZkSession(cluster.zookeeper) as session:
            assert sorted(list_brokers(session)) == [1, 2]
        with pytest.raises(ZkbrokerError, match="did not start"):
            _ = cluster.embedded_zookeeper


def test_failed_broker_process_is_reported(tmp_path, chroot):
    (tmp_path / "broker-1").write_text("a file where the data directory should be")
    with (
        pytest.raises(ZkbrokerError, match="exited with status 1"),
        LocalCluster(directory=tmp_path, zookeeper=chroot),
    ):
        pass


def test_brokers_run_in_process(chroot):
    with LocalCluster(brokers=2, zookeeper=chroot, in_process=True) as cluster:
        topic = cluster.create_topic(partitions=4)
        broker = cluster.broker(1)
        host, port = broker.address
        assert broker.pid == os.getpid()
        assert broker.stop()
        assert not broker.alive
        broker.start()
        assert broker.address == (host, port)
        with Cluster(StaticSource(cluster.bootstrap_servers.split(","))) as view:
            assert {info.leader for info in view.partitions(topic)} == {1, 2}
        with pytest.raises(ZkbrokerError, match="leave in_process out"):
            broker.kill()
    assert not any(thread.name.startswith("broker-") for thread in threading.enumerate())


def test_failed_in_process_broker_is_reported(tmp_path, chroot):
    (tmp_path / "broker-1").write_text("a file where the data directory should be")
    with (
        pytest.raises(ZkbrokerError, match=r"log\.dirs"),
        LocalCluster(directory=tmp_path, zookeeper=chroot, in_process=True),
    ):
        pass


def test_broker_that_cannot_start_leaves_no_descriptor(tmp_path):
    def fail():
        broker = InProcessBroker(tmp_path, {"broker.id": "1"})
        with pytest.raises(ZkbrokerError, match=r"zookeeper\.connect"):
            broker.start()
        broker.stop()
        assert not broker.alive

    fail()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        fail()
    assert len(os.listdir("/proc/self/fd")) <= before
