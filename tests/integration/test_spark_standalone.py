"""The loader on a standalone Spark: a master and two workers, the packages sent along as a zip."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pyspark
import pytest

from tests.support.loaded import loaded_offsets
from tests.support.loading import verified
from tests.support.spark_records import publish
from zkbroker.producer import KeyedMessage
from zkbroker.runtime.child_process import start_child

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
BASH = shutil.which("bash") or "/bin/bash"


class Standalone:
    """A Spark master and workers as processes of this machine."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._children: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def start(self, workers: int) -> None:
        self.url = self._run(
            "master",
            ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0"],
            r"Starting Spark master at (spark://\S+)",
        )
        for number in range(workers):
            # Spark runs no speculative copy on the host of the first attempt.
            options = ["--host", f"127.0.0.{number + 1}", "--cores", "1", "--memory", "1g"]
            options += ["--work-dir", f"{self._place}/worker-{number}/work"]
            self._run(
                f"worker-{number}",
                ["org.apache.spark.deploy.worker.Worker", *options, self.url],
                r"Successfully registered with master (\S+)",
            )

    def stop(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()

    def _run(self, name: str, command: list[str], ready: str) -> str:
        (self._place / name).mkdir()
        log = self._place / f"{name}.log"
        settings = "rootLogger.level = info\nrootLogger.appenderRef.out.ref = out\n"
        settings += "appender.out.type = Console\nappender.out.name = out\n"
        settings += "appender.out.layout.type = PatternLayout\n"
        settings += "appender.out.layout.pattern = %m%n\n"
        (self._place / "log4j2.properties").write_text(settings)
        properties = {
            "log4j2.configurationFile": f"{self._place}/log4j2.properties",
            "spark.master.ui.port": "0",
            "spark.worker.ui.port": "0",
            "spark.master.rest.enabled": "false",
        }
        os.environ["SPARK_DAEMON_JAVA_OPTS"] = " ".join(
            f"-D{key}={value}" for key, value in properties.items()
        )
        with log.open("wb") as output:
            child = start_child(
                [BASH, f"{HOME}/bin/spark-class", *command], cwd=self._place / name, output=output
            )
        self._children.append(child)
        with log.open() as lines:
            while True:
                line = lines.readline()
                if not line:
                    assert child.poll() is None, log.read_text()
                    time.sleep(0.05)
                elif found := re.search(ready, line):
                    return found[1]


@pytest.fixture
def standalone(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", str(HOME))
    monkeypatch.setenv("SPARK_DAEMON_JAVA_OPTS", "")
    running = Standalone(tmp_path)
    running.start(workers=2)
    yield running
    running.stop()


def test_load_runs_on_standalone_workers_with_shipped_packages(local_cluster, standalone, tmp_path):
    packages = tmp_path / "packages.zip"
    with zipfile.ZipFile(packages, "w") as archive:
        for package in ("zkbroker", "spark_loader"):
            for path in (ROOT / package).rglob("*.py"):
                archive.write(path, path.relative_to(ROOT))
    with local_cluster(1) as cluster:
        topic = cluster.create_topic(partitions=4)
        messages = [KeyedMessage(topic, b"v%d" % n, partition=n % 4) for n in range(2000)]
        publish(cluster, topic, messages)
        # Executors can import only the packages that were sent along.
        settings = {
            "spark.submit.pyFiles": packages,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
        }
        output = tmp_path / "lake"
        command = [sys.executable, "-m", "spark_loader.cli", "--zookeeper", cluster.zookeeper]
        command += ["--topic", topic, "--output", str(output), "--master", standalone.url, "--json"]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        ran = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        assert json.loads(ran.stdout)["rows"] == 2000
    used = {
        path.parent.parent.parent.name for path in tmp_path.glob("worker-*/work/app-*/*/stderr")
    }
    assert len(list(tmp_path.glob("worker-*/work/app-*/*"))) >= 2, used
    verified(output)
    assert loaded_offsets(output) == {(topic, p): [*range(500)] for p in range(4)}


LOAD = """
import sys
from spark_loader import Loader, session
from tests.support.slow_attempt import SlowAttempt

master, zookeeper, topic, output, state, path = sys.argv[1:]
conf = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": path,
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.25",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.efficiency.enabled": "false",
}
spark = session(master, conf=conf)
for _ in range(2):
    loader = Loader(
        zookeeper=zookeeper,
        topics=[topic],
        output=output,
        group_bytes=0,  # Spark copies no task that is alone
        filesystem=SlowAttempt(state),
    )
    print(loader.run(spark).rows)
spark.stop()
"""


def test_speculative_mapper_attempt_counts_once(local_cluster, standalone, tmp_path):
    state, output = tmp_path / "state", tmp_path / "lake"
    state.mkdir()
    with local_cluster(1) as cluster:
        topic = cluster.create_topic(partitions=4)
        messages = [KeyedMessage(topic, b"v%d" % n, partition=n % 4) for n in range(2000)]
        publish(cluster, topic, messages)
        where = [standalone.url, cluster.zookeeper, topic, str(output), str(state), str(ROOT)]
        ran = subprocess.run(
            [sys.executable, "-c", LOAD, *where],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["2000", "0"]
    tries = {path.name for path in state.iterdir()}
    assert "00000-copy-won" in tries
    assert "00000-first-won" not in tries
    verified(output)
    assert loaded_offsets(output) == {(topic, p): [*range(500)] for p in range(4)}
