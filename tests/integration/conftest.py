"""Fixtures of the tests on real brokers."""

import uuid
from contextlib import contextmanager

import pytest
from click.testing import CliRunner

from tests.support.cluster07 import cluster07, registry_tree
from zkbroker.cli.main import cli
from zkbroker.errors import ZkbrokerError


@pytest.fixture
def tree(chroot):
    """The registry of a 0.7 cluster: a kazoo client in a chroot beside the test's own."""
    with registry_tree(chroot) as zk:
        yield zk


@contextmanager
def _registry07(zookeeper, directory, **settings):
    """Yield the registry of a cluster; with its brokers, and the folder of the first one's logs."""
    chroot = f"{zookeeper.connect_string}/{directory.name}"
    with (
        registry_tree(chroot) as registry,
        cluster07(directory, chroot, registry, **settings) as brokers,
    ):
        registry.brokers, registry.folder = brokers, directory / "b0" / "legacy"
        yield registry


@pytest.fixture(scope="module")
def pair07(zookeeper, tmp_path_factory):
    """Two brokers with two partitions of each topic."""
    with _registry07(zookeeper, tmp_path_factory.mktemp("pair-07")) as registry:
        yield registry


@pytest.fixture(scope="module")
def single07(zookeeper, tmp_path_factory):
    """A broker with one partition of each topic."""
    directory = tmp_path_factory.mktemp("single-07")
    with _registry07(zookeeper, directory, brokers=1, num_partitions=1) as registry:
        yield registry


@pytest.fixture
def topic07():
    """The name of a 0.7 topic that no other test uses, for clusters that tests share."""
    return f"t-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def source(spark, cluster):
    """`format("zkbroker")` on the cluster of the module, for a reader or a writer of Spark."""
    from spark_loader import register

    register(spark)

    def options(reader_or_writer, **more):
        return reader_or_writer.format("zkbroker").options(
            **{"kafka.bootstrap.servers": cluster.bootstrap_servers, **more}
        )

    return options


@pytest.fixture
def tool():
    """`zkbroker` in this process: returns its output, or its errors if it has to fail.

    An exception that the process would show with a traceback is raised.
    """

    def run(*arguments, status=0, stdin=None, **environment):
        ran = CliRunner(env=environment).invoke(cli, [*map(str, arguments)], input=stdin)
        if ran.exception and not isinstance(ran.exception, ZkbrokerError | OSError | SystemExit):
            raise ran.exception
        errors = f"{ran.stderr}{ran.exception}"
        assert ran.exit_code == status, errors
        return errors if status else ran.stdout

    return run
