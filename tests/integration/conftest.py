"""Fixtures of the tests on real brokers."""

import pytest

from tests.support.cluster07 import registry_tree


@pytest.fixture
def tree(chroot):
    """The registry of a 0.7 cluster: a kazoo client in a chroot beside the test's own."""
    with registry_tree(chroot) as zk:
        yield zk
