import random
from dataclasses import replace
from typing import Any

import pytest

from tests.support.instant_session import InstantSession
from tests.support.simulated_time import Clock
from tests.support.simulated_zookeeper import SimZooKeeper
from zkbroker.admin import cluster_tree
from zkbroker.admin.cluster_tree import NoBrokers, find_brokers, find_no_brokers


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


def test_registered_broker_confirms_address(session: Any) -> None:
    register(session, "")
    assert find_no_brokers(session) is None


NO_BROKERS = "no broker is registered under zk:2181/"


@pytest.mark.parametrize(
    ("nodes", "stopped", "elsewhere", "text"),
    [
        (
            ["/kafka/brokers/ids/1", "/prod/east/brokers/ids/1"],
            False,
            ("/kafka", "/prod/east"),
            "; there are some under zk:2181/kafka, zk:2181/prod/east: correct the path",
        ),
        (
            [f"/c{number}/brokers/ids/1" for number in range(7)],
            False,
            tuple(f"/c{number}" for number in range(7)),
            (
                "; there are some under zk:2181/c0, zk:2181/c1, zk:2181/c2, zk:2181/c3, zk:2181/c4 "
                "and 2 more: correct the path"
            ),
        ),
        (["/cluster/id"], True, (), ": start its brokers"),
        (
            [],
            False,
            (),
            " or elsewhere in this ZooKeeper: start a broker, or correct the address",
        ),
    ],
    ids=["other chroots", "many chroots", "stopped cluster", "empty"],
)
def test_missing_brokers_are_explained(
    session: Any, nodes: list[str], stopped: bool, elsewhere: tuple[str, ...], text: str
) -> None:
    for node in nodes:
        session.create(node, b"{}", parents=True)
    found = find_no_brokers(session)
    assert found == NoBrokers(NO_BROKERS + text, stopped, elsewhere)


def test_search_is_bounded_in_depth_and_nodes(
    session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(session, "/a/b/c/d/too-deep")
    assert find_brokers(session) == ([], True)
    monkeypatch.setattr(cluster_tree, "MAX_SEARCHED", 3)
    for number in range(7):
        register(session, f"/c{number}")
    assert find_brokers(session) == ([], False)
