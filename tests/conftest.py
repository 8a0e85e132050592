"""Fixtures of all tests: one real ZooKeeper for the whole run, a tree of its own for every test."""

import re
import uuid
from collections.abc import Iterator

import pytest

from zkbroker.registry import ZkSession
from zkbroker.registry.embedded import EmbeddedZooKeeper


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


@pytest.fixture
def zk(chroot: str) -> Iterator[ZkSession]:
    """A session on the test's own tree, on threads."""
    with ZkSession(chroot, session_timeout_ms=6000) as session:
        yield session
