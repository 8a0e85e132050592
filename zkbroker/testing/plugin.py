"""The pytest plugin: `zkbroker_cluster` for a session of tests, `zkbroker_topic` for each test.

    def test_mine(zkbroker_cluster, zkbroker_topic):
        producer = KafkaProducer(bootstrap_servers=zkbroker_cluster.bootstrap_servers)

`zkbroker_brokers = 3` in the pytest configuration sets how many brokers the cluster has.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from zkbroker.testing.local import LocalCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plugin's setting."""
    parser.addini("zkbroker_brokers", "Brokers of the zkbroker_cluster fixture.", default="1")


@pytest.fixture(scope="session")
def zkbroker_cluster(request: pytest.FixtureRequest) -> "Iterator[LocalCluster]":
    """A cluster shared by all tests of the session."""
    # Imported on use: pytest loads the plugin in every run where zkbroker is installed.
    from zkbroker.testing.local import LocalCluster

    with LocalCluster(brokers=int(request.config.getini("zkbroker_brokers"))) as cluster:
        yield cluster


@pytest.fixture
def zkbroker_topic(zkbroker_cluster: "LocalCluster") -> str:
    """A fresh topic with one partition."""
    return zkbroker_cluster.create_topic()
