"""The clusters of test files.

They are on the shared ZooKeeper, each in a tree of its own. A test that stops, pauses or configures
ZooKeeper makes a `LocalCluster` with one of its own.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from zkbroker.testing import LocalCluster

MakeCluster = Callable[..., LocalCluster]


def module_cluster(brokers: int = 1, **settings: Any) -> Any:
    """Return a fixture: the cluster that the tests of a file share.

    Args:
        brokers: how many.
        settings: as `LocalCluster` takes them.
    """

    @pytest.fixture(scope="module")
    def cluster(local_cluster: MakeCluster) -> Iterator[LocalCluster]:
        with local_cluster(brokers, **settings) as running:
            yield running

    return cluster
