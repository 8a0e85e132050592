"""What `zkbroker.testing` promises to those who test with it."""

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
from zkbroker.zookeeper import ZkSession

MANUAL = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
TESTS = re.findall(r"<!-- test: ([\w-]+) -->\n+```python\n(.*?)```", MANUAL, re.DOTALL)


@pytest.mark.parametrize(("name", "code"), TESTS, ids=[name for name, _ in TESTS])
def test_the_manuals_tests_pass_under_the_plugin(name, code, tmp_path):
    (tmp_path / "test_mine.py").write_text(code)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "zkbroker.testing.plugin", "test_mine.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


def test_a_cluster_leaves_nothing_behind():
    with LocalCluster(brokers=2) as cluster:
        directory = cluster.directory
        pids = [broker.pid for broker in cluster.brokers] + [cluster.embedded_zookeeper.pid]
        assert all(exists(pid) for pid in pids)
    assert not any(exists(pid) for pid in pids)
    assert not directory.exists()


@pytest.mark.parametrize("in_process", [False, True])
def test_a_cluster_that_is_not_stopped_ends_with_the_interpreter(in_process, tmp_path):
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


def test_brokers_are_killed_paused_and_come_back_with_their_data():
    with LocalCluster() as cluster:
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


def test_a_broker_is_added_and_a_zookeeper_shared():
    with LocalCluster() as cluster:
        cluster.add_broker()
        with ZkSession(cluster.zookeeper) as session:
            assert sorted(list_brokers(session)) == [1, 2]
        with (
            LocalCluster(zookeeper=f"{cluster.zookeeper}/other") as other,
            pytest.raises(ZkbrokerError, match="did not start"),
        ):
            _ = other.embedded_zookeeper


def test_a_broker_that_cannot_start_says_why(tmp_path):
    (tmp_path / "broker-1").write_text("a file where the data directory should be")
    with (
        pytest.raises(ZkbrokerError, match="exited with status 1"),
        LocalCluster(directory=tmp_path),
    ):
        pass


def test_brokers_run_in_this_process_when_asked():
    with LocalCluster(brokers=2, in_process=True) as cluster:
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


def test_a_broker_in_this_process_that_cannot_start_says_why(tmp_path):
    (tmp_path / "broker-1").write_text("a file where the data directory should be")
    with (
        pytest.raises(ZkbrokerError, match=r"log\.dirs"),
        LocalCluster(directory=tmp_path, in_process=True),
    ):
        pass
