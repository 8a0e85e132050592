import json
import threading
from pathlib import Path

from tests.support.zookeeper import expire, until
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.broker_registration import BrokerRegistration, SessionRecord, register_broker
from zkbroker.registry.brokers import (
    BrokerInfo,
    BrokersWatch,
    list_brokers,
    next_broker_id,
    prepare_tree,
)
from zkbroker.zookeeper import ZkSession


def test_registration_lives_as_long_as_session(zk: ZkSession, chroot: str) -> None:
    assert list_brokers(zk) == {}
    with ZkSession(chroot) as other:
        register_broker(other, BrokerInfo(10, "h", 1))
        register_broker(other, BrokerInfo(9, "h", 2, rack="r"))
        assert list(list_brokers(zk)) == [9, 10]
        found = list_brokers(zk)[9]
        assert found is not None
        assert found.rack == "r"
    assert list_brokers(zk) == {}
    assert 9 not in list_brokers(zk)


def test_registration_waits_for_end_of_old_session(zk: ZkSession, chroot: str) -> None:
    predecessor = ZkSession(chroot).start()
    register_broker(predecessor, BrokerInfo(1, "old", 1))
    ending = threading.Timer(0.3, predecessor.close)
    ending.start()
    register_broker(zk, BrokerInfo(1, "new", 2), wait_ms=60_000)
    ending.join()
    assert list_brokers(zk)[1].host == "new"


def test_recorded_session_of_killed_broker_is_closed_at_once(
    zk: ZkSession, chroot: str, tmp_path: Path
) -> None:
    record = SessionRecord(tmp_path / "session.json")
    with ZkSession(chroot) as predecessor:
        first = BrokerRegistration(predecessor, BrokerInfo(1, "127.0.0.1", 1), record=record)
        first.start()
        assert record.load() == predecessor.session_id
        # As after `kill -9`: the node stays in the old session.
        second = BrokerRegistration(zk, BrokerInfo(1, "127.0.0.1", 2), record=record)
        first._loop.close()
        second.start()
        stat = zk.exists(paths.broker(1))
        assert stat is not None
        assert stat.ephemeral_owner == zk.session_id
        second.close()
        assert zk.exists(paths.broker(1)) is None


def test_failed_registration_callback_is_repeated(zk: ZkSession) -> None:
    attempts: list[int] = []

    def registered() -> None:
        attempts.append(1)
        if len(attempts) == 2:
            raise RegistryError("not yet")

    registration = BrokerRegistration(zk, BrokerInfo(1, "h", 1), on_registered=registered)
    registration.start()
    expire(zk)
    until(lambda: len(attempts) == 3)
    registration.close()


def test_brokers_watch_follows_changes(zk: ZkSession, chroot: str) -> None:
    views: list[dict[int, BrokerInfo]] = []
    watch = BrokersWatch(zk, views.append)
    watch.start()
    assert views == [{}]
    with ZkSession(chroot) as other:
        register_broker(other, BrokerInfo(1, "h", 1))
        until(lambda: list(views[-1]) == [1])
        other.set(paths.broker(1), BrokerInfo(1, "moved", 1).to_json())
        until(lambda: views[-1][1].host == "moved")
        other.create(f"{paths.BROKER_IDS}/2", b"not json")
        other.create(f"{paths.BROKER_IDS}/3", BrokerInfo(3, "h", 3).to_json())
        until(lambda: list(views[-1]) == [1, 3])
    until(lambda: 1 not in views[-1])
    expire(zk)
    until(lambda: zk.generation == 1 and zk.wait_connected(10))
    with ZkSession(chroot) as other:
        register_broker(other, BrokerInfo(5, "h", 1))
        until(lambda: 5 in views[-1])
    watch.close()


def test_generated_broker_ids_are_above_1000_and_unique(zk: ZkSession) -> None:
    assert [next_broker_id(zk), next_broker_id(zk), next_broker_id(zk)] == [1001, 1002, 1003]


def test_registration_json_matches_genuine_broker() -> None:
    lines = Path("tests/golden/data/znodes/kafka-2.3.0.txt").read_text().splitlines()
    golden = json.loads(next(line for line in lines if "/brokers/ids/0" in line).split("  ->  ")[1])
    ours = json.loads(BrokerInfo(0, "127.0.0.1", 29092, timestamp_ms=1795178465904).to_json())
    assert ours == golden


def test_persistent_tree_matches_genuine_brokers(zk: ZkSession) -> None:
    prepare_tree(zk)
    lines = Path("tests/golden/data/znodes/kafka-2.3.0.txt").read_text().splitlines()
    for line in lines:
        kind, path = line.split()[:2]
        depth = path.count("/")
        under = ("/brokers/topics/", "/config/topics/", "/config/changes/", "/controller")
        kept = kind == "P" and depth <= 2 and "->" not in line and path not in {"/", "/cluster"}
        if kept and not path.startswith(under):
            stat = zk.exists(path)
            assert stat is not None, path
            assert stat.ephemeral_owner == 0
