"""Our own clients and commands without rights, on brokers that may do nothing but act as brokers.

Clients and brokers are `User:ANONYMOUS` from the same address: what a client may do is granted bit
by bit, and the brokers replicate all the while with ClusterAction alone.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.authorized import SETTINGS, ensure_acl_tree, grant
from tests.support.clusters import TestCluster
from tests.support.zookeeper import until
from zkbroker.cli.main import cli
from zkbroker.errors import ZkbrokerError
from zkbroker.registry.topics import create_topic
from zkbroker.security import CLUSTER, Operation, ResourceType
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper import ZkSession

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


@pytest.fixture(scope="module")
def where(zookeeper: Any) -> str:
    return f"{zookeeper.connect_string}/own-clients"


@pytest.fixture(scope="module")
def zk(where: str) -> Iterator[ZkSession]:
    with ZkSession(where) as session:
        ensure_acl_tree(session)
        grant(session, Operation.CLUSTER_ACTION, *CLUSTER, host="*")
        yield session


@pytest.fixture(scope="module")
def cluster(where: str, zk: ZkSession) -> Iterator[LocalCluster]:
    settings = {**SETTINGS, "offsets.topic.num.partitions": "1", "replica.fetch.wait.max.ms": "50"}
    with TestCluster(brokers=2, zookeeper=where, properties=settings) as made:
        create_topic(zk, "t", {0: [1, 2]}, {"min.insync.replicas": "2"})
        yield made


@pytest.fixture
def zkbroker(cluster: LocalCluster) -> Callable[..., tuple[int, str]]:
    def run(*arguments: str, stdin: bytes = b"") -> tuple[int, str]:
        # As in a pipe: parallel test processes have a width of their own.
        environment = {"ZKBROKER_BOOTSTRAP": cluster.bootstrap_servers, "COLUMNS": None}
        ran = CliRunner(env=environment).invoke(cli, arguments, input=stdin)
        assert ran.exception is None or isinstance(ran.exception, ZkbrokerError | SystemExit)
        return ran.exit_code, ran.stdout if ran.exit_code == 0 else f"{ran.stderr}{ran.exception}"

    return run


def test_each_right_allows_one_command(zkbroker: Callable[..., Any], zk: ZkSession) -> None:
    def send() -> tuple[int, str]:
        status: tuple[int, str] = zkbroker("produce", "-t", "t", "-X", "acks=all", stdin=b"one\n")
        return status

    status, text = send()
    assert (status, "TOPIC_AUTHORIZATION_FAILED (29)" in text) == (1, True)
    status, text = zkbroker("acls", "list")
    assert (status, "CLUSTER_AUTHORIZATION_FAILED (31)" in text) == (1, True)
    status, text = zkbroker("groups", "describe", "g")
    assert (status, "may not describe it" in text) == (1, True)
    grant(zk, Operation.WRITE, TOPIC, "t", host="*")
    until(lambda: send()[0] == 0)
    status, text = zkbroker("consume", "-t", "t", "-e")
    assert (status, "TOPIC_AUTHORIZATION_FAILED (29)" in text) == (1, True)
    grant(zk, Operation.READ, TOPIC, "t", host="*")
    until(lambda: zkbroker("consume", "-t", "t", "-e") == (0, "one\n"))
    status, text = zkbroker("consume", "t", "-G", "g", "-e")
    assert (status, "GROUP_AUTHORIZATION_FAILED (30)" in text) == (1, True)
    grant(zk, Operation.READ, GROUP, "g", host="*")
    member = ("consume", "t", "-G", "g", "-e", "-X", "auto.offset.reset=earliest")
    until(lambda: zkbroker(*member) == (0, "one\n"))
    grant(zk, Operation.DESCRIBE, *CLUSTER, host="*")
    until(lambda: zkbroker("acls", "list")[0] == 0)
    status, text = zkbroker("acls", "add", "--allow-principal", "User:a", "--topic", "t")
    assert (status, "CLUSTER_AUTHORIZATION_FAILED (31)" in text) == (1, True)


def test_top_names_topics_that_may_not_be_described(
    zkbroker: Callable[..., Any], zk: ZkSession, where: str
) -> None:
    create_topic(zk, "hidden", {0: [1, 2]}, {})
    grant(zk, Operation.DESCRIBE, TOPIC, "t", host="*")

    def shown() -> list[str]:
        status, text = zkbroker("top", "-z", where, "--once", "--interval", "0.1")
        assert status == 0, text
        lines: list[str] = text.splitlines()
        return lines

    until(lambda: any(line.split()[:2] == ["t", "1"] for line in shown()))
    until(lambda: any(line.startswith("topic hidden is not shown: ") for line in shown()))
    assert "TOPIC_AUTHORIZATION_FAILED (29)" in "\n".join(shown())
