"""The clusters of test files.

They are on the shared ZooKeeper, each in a tree of its own. A test that stops, pauses or configures
ZooKeeper makes a `TestCluster` with one of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.support.brokers import SESSION_MS, MortalBroker
from zkbroker.testing import LocalCluster

MakeCluster = Callable[..., LocalCluster]


class TestCluster(LocalCluster):
    """A cluster of `MortalBroker`s; its arguments are those of `LocalCluster`."""

    __test__ = False

    def __init__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str | float] | None = None,
        **settings: Any,
    ) -> None:
        given = {"zookeeper.session.timeout.ms": SESSION_MS, **(properties or {})}
        super().__init__(brokers, properties=given, **settings)
        self._make_broker = MortalBroker


def module_cluster(brokers: int = 1, *, check_logs: bool = False, **settings: Any) -> Any:
    """Return a fixture: the cluster that the tests of a file share.

    Args:
        brokers: how many.
        check_logs: fail at the end if a broker logged a traceback.
        settings: as `LocalCluster` takes them.
    """

    @pytest.fixture(scope="module")
    def cluster(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
        with local_cluster(brokers, **settings) as running:
            yield running
            for broker in running.brokers if check_logs else ():
                assert "Traceback" not in broker.log_path.read_text(), broker.log_path

    return cluster
