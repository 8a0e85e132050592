import random
from dataclasses import replace
from typing import Any

import pytest

from tests.support.instant_session import InstantSession
from tests.support.simulated_time import Clock
from tests.support.simulated_zookeeper import SimZooKeeper
from zkbroker.admin import cluster_tree
from zkbroker.admin.cluster_tree import find_brokers, find_no_brokers


class Session(InstantSession):
    hosts = "zk:2181"
    chroot = ""
    security = None

    def children(self, path: str, watch: Any = None) -> list[str]:
        return super().children("" if path == "/" else path, watch)

    def exists_many(self, names: Any, watches: Any = None) -> list[Any]:
        return [
            None if stat is None else replace(stat, children=len(self.children(name)))
            for name, stat in zip(names, super().exists_many(names, watches), strict=True)
        ]

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Session(SimZooKeeper(Clock(), random.Random(1), 6.0))
    monkeypatch.setattr(cluster_tree, "ZkSession", lambda hosts, security: made)
    return made


def register(session: Any, chroot: str) -> None:
    session.create(f"{chroot}/brokers/ids/1", b"{}", parents=True)


def test_brokers_under_the_address_are_all_that_is_asked(session: Any) -> None:
    register(session, "")
    assert find_no_brokers(session) is None


def test_a_forgotten_chroot_is_named(session: Any) -> None:
    register(session, "/kafka")
    register(session, "/prod/east")
    found = find_no_brokers(session)
    assert found is not None
    assert (found.stopped, found.elsewhere) == (False, ("/kafka", "/prod/east"))
    assert found.text == (
        "no broker is registered under zk:2181/; there are some under zk:2181/kafka, "
        "zk:2181/prod/east: correct the path"
    )


def test_a_cluster_whose_brokers_are_stopped_is_one(session: Any) -> None:
    session.create("/cluster/id", b"{}", parents=True)
    found = find_no_brokers(session)
    assert found is not None
    assert found.stopped
    assert found.text == "no broker is registered under zk:2181/: start its brokers"


def test_an_empty_zookeeper_is_said_to_be_empty(session: Any) -> None:
    found = find_no_brokers(session)
    assert found is not None
    assert found.text.endswith(
        "/ or elsewhere in this ZooKeeper: start a broker, or correct the address"
    )


def test_at_most_five_are_named(session: Any) -> None:
    for number in range(7):
        register(session, f"/c{number}")
    found = find_no_brokers(session)
    assert found is not None
    assert "zk:2181/c4 and 2 more: correct the path" in found.text


def test_the_search_is_bounded(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    register(session, "/a/b/c/d/too-deep")
    assert find_brokers(session) == ([], True)
    monkeypatch.setattr(cluster_tree, "MAX_SEARCHED", 3)
    for number in range(7):
        register(session, f"/c{number}")
    assert find_brokers(session) == ([], False)
