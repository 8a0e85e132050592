"""The log messages of a rebalancer; the simulation tests its behaviour."""

import logging

from zkbroker.rebalance import Rebalancer
from zkbroker.registry.groups import StreamSubscription
from zkbroker.zookeeper import ClaimBlocked


class UnblockedStore:
    """A store in which the blocking owner has released its partition already."""

    consumer_id = "g_me"

    def still_blocked(self, blocked, watch):
        return False


def test_repeated_block_is_logged_as_warning_once(caplog):
    caplog.set_level(logging.INFO)
    rebalancer = Rebalancer(
        UnblockedStore(),
        None,
        subscription=StreamSubscription({"t": 1}),
        backoff_ms=1,
        max_retries=2,
    )
    for _ in range(5):
        assert rebalancer._await_owner(ClaimBlocked("/owner", "g_other-0")) == 0.0
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "INFO", "WARNING", "INFO", "INFO"]
    assert "attempts=3 by=/owner is owned by g_other-0" in caplog.text
