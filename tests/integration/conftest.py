"""Fixtures of the tests on real brokers."""

import pytest
from click.testing import CliRunner

from tests.support.cluster07 import registry_tree
from zkbroker.cli.main import cli
from zkbroker.errors import ZkbrokerError


@pytest.fixture
def tree(chroot):
    """The registry of a 0.7 cluster: a kazoo client in a chroot beside the test's own."""
    with registry_tree(chroot) as zk:
        yield zk


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
