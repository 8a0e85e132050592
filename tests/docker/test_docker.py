"""The images, the compose cluster and its faults, on a real Docker engine.

Run with `pytest -m docker`. Where no registry can be reached, docker/make-base.sh makes a base
image, named by the variables BASE and ZOOKEEPER_BASE; PIP_CERT names the certificates in it.
"""

import os
import shutil
import subprocess
import time

import docker
import pytest
from docker.errors import DockerException
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from spark_loader import Loader
from tests.support.markdown import ROOT
from tests.support.process import wait_until
from zkbroker.client import Cluster, StaticSource
from zkbroker.client.resolve_offsets import resolve_offsets
from zkbroker.config.producer import ProducerConfig
from zkbroker.consumer import EARLIEST_TIME, LATEST_TIME, AssignedConsumer
from zkbroker.producer import KeyedMessage, Producer

BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
PROJECT = "zkbroker-test"


def _engine():
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        return None, str(error)
    return client, ""


CLIENT, REASON = _engine()
pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(CLIENT is None, reason=f"no Docker engine answers: {REASON}"),
]


@pytest.fixture(scope="module")
def image():
    arguments = [
        f"--build-arg={name}={os.environ[name]}"
        for name in ("BASE", "PIP_CERT")
        if name in os.environ
    ]
    subprocess.run(
        ["docker", "build", "-t", "zkbroker", *arguments, "-f", "docker/Dockerfile", "."],
        cwd=ROOT,
        check=True,
    )
    return "zkbroker"


@pytest.fixture(scope="module")
def compose(image):
    command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
    command += ["-p", PROJECT, "-f", str(ROOT / "docker" / "docker-compose.yml")]

    def run(*arguments):
        return subprocess.run(
            [*command, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout

    run("up", "-d", "--build")
    try:
        yield run
    finally:
        run("down", "-v", "--remove-orphans")


def publish(topic, first, count):
    config = ProducerConfig.from_properties(
        {
            "metadata.broker.list": BOOTSTRAP,
            "request.required.acks": "-1",
            "message.send.max.retries": "60",
            "retry.backoff.ms": "500",
        }
    )
    with Producer(config) as producer:
        producer.send(
            [KeyedMessage(topic, b"%d" % n, key=b"%d" % n) for n in range(first, first + count)]
        )


def read(topic):
    with Cluster(StaticSource(BOOTSTRAP.split(","))) as cluster:
        keys = [(topic, info.partition) for info in cluster.partitions(topic)]
        starts = resolve_offsets(cluster, dict.fromkeys(keys, EARLIEST_TIME))
        ends = resolve_offsets(cluster, dict.fromkeys(keys, LATEST_TIME))
        with AssignedConsumer(cluster, starts, stop=ends) as consumer:
            return sorted(int(message.value) for message in consumer)


def healthy(name):
    container = CLIENT.containers.get(name)
    return container.attrs["State"]["Health"]["Status"] == "healthy"


def test_the_image_is_small_and_runs_without_privileges(image):
    attributes = CLIENT.images.get(image).attrs
    assert attributes["Config"]["User"] == "zkbroker"
    assert attributes["Size"] < 400_000_000
    shown = CLIENT.containers.run(image, ["--version"], remove=True)
    assert shown.startswith(b"zkbroker ")


def test_a_container_without_zookeeper_says_so_and_exits(image):
    with DockerContainer(image).with_env("ZKBROKER_ZOOKEEPER_CONNECT", "127.0.0.1:1") as container:
        container.waiting_for(LogMessageWaitStrategy("error: no ZooKeeper answers"))
        assert container.get_wrapped_container().wait(timeout=60)["StatusCode"] == 1


def test_a_compose_cluster_survives_a_broker_and_a_zookeeper_and_is_loaded(compose, tmp_path):
    started = time.monotonic()
    assert wait_until(
        lambda: all(healthy(f"{PROJECT}_broker{n}_1") for n in (1, 2, 3)), 120, interval_s=0.5
    ), compose("logs")
    print(f"three ZooKeepers and three brokers healthy after {time.monotonic() - started:.1f} s")
    publish("visits", 0, 1000)
    CLIENT.containers.get(f"{PROJECT}_zookeeper1_1").kill()
    publish("visits", 1000, 1000)
    broker = CLIENT.containers.get(f"{PROJECT}_broker1_1")
    broker.kill()
    # An explicit kill is not restarted by the policy; an operator starts it again.
    broker.start()
    assert wait_until(lambda: healthy(broker.name), 120, interval_s=0.5)
    publish("visits", 2000, 1000)
    assert read("visits") == list(range(3000))
    loaded = Loader(bootstrap=BOOTSTRAP, topics=["visits"], output=str(tmp_path / "lake")).run()
    assert loaded.rows == 3000


def test_stopping_is_clean(compose):
    broker = CLIENT.containers.get(f"{PROJECT}_broker2_1")
    broker.stop(timeout=20)
    broker.reload()
    assert broker.attrs["State"]["ExitCode"] == 0
