"""Handlers wait for partitions that the controller has not decided yet."""

import inspect
from types import SimpleNamespace

import pytest

from zkbroker.broker.services import DECIDED_S, BrokerServices, Patience
from zkbroker.errors import NotLeaderForPartition

ASSIGNMENT = dict.fromkeys(range(100), (1,))


def test_request_waits_once_for_all_undecided_partitions():
    waits = []
    now_ms = [5_000.0]

    def wait_for(key, timeout_s):
        waits.append(timeout_s)
        now_ms[0] += timeout_s * 1000

    names = inspect.signature(BrokerServices).parameters
    view = SimpleNamespace(
        topics=SimpleNamespace(deleting=set()),
        assignment=lambda topic: ASSIGNMENT,
    )
    services = BrokerServices(
        **dict.fromkeys(names)
        | {
            "broker_id": 1,
            "view": view,
            "runtime": SimpleNamespace(clock_ms=lambda: now_ms[0]),
            "replicas": SimpleNamespace(get=lambda topic, number: None, wait_for=wait_for),
        }
    )
    for _ in range(2):
        waits.clear()
        patience = Patience()
        for number in ASSIGNMENT:
            with pytest.raises(NotLeaderForPartition):
                services.partition("t", number, patience)
        assert sum(waits) == DECIDED_S
