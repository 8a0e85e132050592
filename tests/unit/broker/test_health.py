from types import SimpleNamespace

import pytest

from zkbroker.broker import health
from zkbroker.broker.replication_metrics import ReplicationFigures
from zkbroker.errors import StorageError
from zkbroker.zookeeper import SessionState


def broker(**changes):
    parts = {
        "broker_id": 1,
        "draining": False,
        "session": SimpleNamespace(state=SessionState.CONNECTED),
        "view": SimpleNamespace(brokers={1: object()}),
        "controller_id": lambda: 2,
        "logs": SimpleNamespace(failure=lambda: None, offline_dirs=dict),
        "replicas": SimpleNamespace(all=list),
        "fetchers": None,
        "metrics": SimpleNamespace(replication_bytes_out=0),
        "controller_metrics": lambda: SimpleNamespace(offline_partitions=0),
    }
    return SimpleNamespace(**{**parts, **changes})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"draining": True}, "starting or stopping"),
        ({"session": SimpleNamespace(state=SessionState.SUSPENDED)}, "cannot be reached"),
        ({"session": SimpleNamespace(state=SessionState.LOST)}, "session at ZooKeeper has ended"),
        ({"view": SimpleNamespace(brokers={})}, "not registered"),
        ({"controller_id": lambda: None}, "no broker is the controller"),
    ],
)
def test_broker_that_is_not_ready_is_still_alive(changes, reason):
    (message,) = health.not_ready(broker(**changes))
    assert reason in message
    assert health.not_alive(broker(**changes)) == []


def test_starting_broker_is_alive_and_not_ready():
    assert health.not_alive(None) == health.troubles(None) == []
    assert health.not_ready(None) == [health.STARTING]
    assert health.not_ready(broker()) == []


def test_broker_without_usable_directory_is_neither_alive_nor_ready():
    lost = SimpleNamespace(failure=lambda: StorageError("no data directory can be used"))
    assert health.not_alive(broker(logs=lost)) == ["no data directory can be used"]
    assert health.not_ready(broker(logs=lost)) == ["no data directory can be used"]


def test_offline_directories_and_replica_problems_are_reported(monkeypatch):
    figures = ReplicationFigures(under_replicated=3, under_min_isr=1)
    monkeypatch.setattr(health, "replication_figures", lambda *_: figures)
    logs = SimpleNamespace(failure=lambda: None, offline_dirs=lambda: {"/d2": "I/O error"})
    assert health.troubles(broker(logs=logs)) == [
        "data directory /d2 is offline: I/O error",
        "partitions led here with replicas that are not in sync: 3",
        "partitions led here with fewer replicas in sync than min.insync.replicas: 1",
    ]
    assert health.not_ready(broker(logs=logs)) == []
