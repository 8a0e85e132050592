"""Every listener is told, whatever another one raises."""

from typing import Any

from zkbroker.consumer.streams.rebalance_listeners import Listeners


class Listener:
    def __init__(self, fails: bool = False) -> None:
        self.told: list[Any] = []
        self.fails = fails

    def before_releasing_partitions(self, owned: Any) -> None:
        self.told.append(("release", dict(owned)))
        if self.fails:
            raise LookupError("of the user")

    def before_starting_fetchers(self, consumer_id: str, owned: Any) -> None:
        self.told.append((consumer_id, dict(owned)))


def test_a_failing_listener_does_not_stop_the_next_one(caplog: Any) -> None:
    first, second = Listener(fails=True), Listener()
    every = Listeners([first, second])
    every.before_releasing_partitions({("t", 0): 1})
    every.before_starting_fetchers("c", {("t", 1): 0})
    assert first.told == second.told == [("release", {("t", 0): 1}), ("c", {("t", 1): 0})]
    assert "rebalance listener failed" in caplog.text
