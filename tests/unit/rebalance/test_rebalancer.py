"""The rebalancer's words about what it meets; what it does is shown by the simulation."""

import logging

from zkbroker.rebalance import Rebalancer
from zkbroker.registry.groups import StreamSubscription
from zkbroker.zookeeper import ClaimBlocked


class GoneAgain:
    """A store in which the owner in the way has gone when one looks."""

    consumer_id = "g_me"

    def still_blocked(self, blocked, watch):
        return False


def test_being_blocked_again_and_again_is_warned_of_once(caplog):
    caplog.set_level(logging.INFO)
    rebalancer = Rebalancer(
        GoneAgain(),
        None,
        subscription=StreamSubscription({"t": 1}),
        backoff_ms=1,
        max_retries=2,
    )
    for _ in range(5):
        assert rebalancer._await_owner(ClaimBlocked("/owner", "g_other-0")) == 0.0
    told = [record.levelname for record in caplog.records]
    assert told == ["INFO", "INFO", "WARNING", "INFO", "INFO"]
    assert "attempts=3 by=/owner is owned by g_other-0" in caplog.text
