"""Warnings of the rebalancer, and its listeners; its decisions are tested by the simulation."""

import logging
from collections.abc import Iterable

from zkbroker.rebalance import Owned, OwnershipListener, Rebalancer
from zkbroker.registry.groups import StreamSubscription
from zkbroker.zookeeper import ClaimBlocked


class OwnerlessStore:
    """A store in which the node of the other owner has always just gone."""

    consumer_id = "g_me"
    session = None

    def still_blocked(self, blocked, watch):
        return False


def make_rebalancer(listeners: Iterable[OwnershipListener] = ()) -> Rebalancer:
    return Rebalancer(
        OwnerlessStore(),
        None,
        subscription=StreamSubscription({"t": 1}),
        backoff_ms=1,
        max_retries=2,
        listeners=listeners,
    )


def test_repeatedly_blocked_claim_logs_one_warning(caplog):
    caplog.set_level(logging.INFO)
    rebalancer = make_rebalancer()
    for _ in range(5):
        assert rebalancer._await_owner(ClaimBlocked("/owner", "g_other-0")) == 0.0
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "INFO", "WARNING", "INFO", "INFO"]
    assert "attempts=3 by=/owner is owned by g_other-0" in caplog.text


class RecordingListener:
    def __init__(self) -> None:
        self.calls: list[Owned] = []

    def before_releasing_partitions(self, owned: Owned) -> None:
        self.calls.append(owned)
        raise LookupError("of the user")


def test_failing_listener_does_not_stop_next_listener(caplog):
    listeners = [RecordingListener(), RecordingListener()]
    rebalancer = make_rebalancer(listeners)
    rebalancer._notify(lambda listener: listener.before_releasing_partitions({("t", 0): 1}))
    assert [listener.calls for listener in listeners] == [[{("t", 0): 1}]] * 2
    assert "rebalance listener failed" in caplog.text
