"""Fixtures of all tests: one real ZooKeeper for the whole run, a tree of its own for every test."""

import atexit
import gc
import os
import re
import time
import uuid
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import gevent
import pytest
from hypothesis import HealthCheck, settings

from tests.support.brokers import connect, running_broker
from tests.support.clusters import MakeCluster, TestCluster
from tests.support.soak import SEED
from tests.support.workers import (
    OneSparkWorker,
    longest_first,
    own_place_first,
    take_own_ports,
    worker_count,
)
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages import CreateTopicsRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

# How long an example takes says more of the machine's other work than of the code. Every run draws
# the same examples, so that a change is blamed only for what it broke; another seed draws others.
settings.register_profile(
    "shared-machine",
    deadline=None,
    derandomize=not SEED,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("shared-machine")
# Each broker and command that a test starts would compile the sources again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# For every Spark that a test starts, also in processes of its own.
os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).parent / "support" / "spark_conf"))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, which never looks at all that again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        # Libraries that count what is left at the end of the process would complain.
        atexit.register(gc.unfreeze)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    worker, count = (os.environ.get(f"PYTEST_XDIST_WORKER{each}") for each in ("", "_COUNT"))
    if worker and count and isinstance(collector, pytest.Directory):
        own_place_first(report.result, worker, int(count))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    longest_first(items)


def pytest_configure() -> None:
    take_own_ports(os.environ.get("PYTEST_XDIST_WORKER"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    return worker_count()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSparkWorker | None:
    return OneSparkWorker(config, log) if config.option.dist == "loadfile" else None


@pytest.fixture(scope="module", autouse=True)
def no_greenlet_left() -> Iterator[None]:
    """What a module leaves running would end, fail and log in the middle of another test."""
    started: weakref.WeakSet[gevent.Greenlet] = weakref.WeakSet()
    gevent.Greenlet.add_spawn_callback(started.add)
    yield
    gevent.Greenlet.remove_spawn_callback(started.add)
    left = [each for each in started if not each.dead]
    until = time.monotonic() + 30
    while left and time.monotonic() < until:
        gevent.sleep(0.01)  # A reader whose connection was closed ends in its next turn.
        left = [each for each in left if not each.dead]
    assert not left


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """A running ZooKeeper, shared: tests that stop or restart one start their own."""
    with EmbeddedZooKeeper(heap_mb=128) as server:
        yield server


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper, request: pytest.FixtureRequest) -> str:
    """The connect string of a tree that no other test uses."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:60].strip("-")
    return f"{zookeeper.connect_string}/{name}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def local_cluster(zookeeper: EmbeddedZooKeeper) -> MakeCluster:
    """`TestCluster` on the shared ZooKeeper, each in a tree of its own."""

    def make(brokers: int = 1, **settings: Any) -> LocalCluster:
        tree = f"{zookeeper.connect_string}/cluster-{uuid.uuid4().hex[:8]}"
        return TestCluster(brokers, zookeeper=tree, **settings)

    return make


@pytest.fixture
def zk(chroot: str) -> Iterator[ZkSession]:
    """A session on the test's own tree, on threads."""
    with ZkSession(chroot, session_timeout_ms=20_000) as session:
        yield session


@pytest.fixture(scope="session")
def broker(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """A running broker process on a tree of its own, shared: `broker.address`.

    Tests use topics of their own; those that stop, pause or configure a broker start their own.
    """
    with running_broker(
        tmp_path_factory.mktemp("broker"),
        f"{zookeeper.connect_string}/shared-broker",
        {
            "num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "5",
        },
    ) as process:
        yield process


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[BrokerConnection]:
    """A client's connection to the shared broker, on threads."""
    with connect(broker) as connected:
        yield connected


@pytest.fixture
def topic(connection: BrokerConnection) -> str:
    """A topic of one partition on the shared broker that no other test uses."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    made = connection.request(
        CreateTopicsRequest(topics=[NewTopic(name, num_partitions=1, replication_factor=1)])
    )
    assert [answer.error_code for answer in made.topics] == [0]
    return name


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session on two cores of this machine, shared: starting one takes seconds."""
    pytest.importorskip("pyspark")
    from spark_loader import session

    root = Path(__file__).parent.parent
    conf = {
        "spark.executorEnv.PYTHONPATH": str(root),
        "spark.python.daemon.module": "tests.support.spark_daemon",
    }
    shared = session("local[2,4]", conf=conf)
    yield shared
    shared.stop()
