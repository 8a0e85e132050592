"""Assignors by name, as objects, and by import path."""

import pytest

from examples.assignors import RandomAssignor
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.consumer.group.assignors import RangeAssignor, SimpleAssignor
from zkbroker.consumer.group.sticky import StickyAssignor
from zkbroker.consumer.group.strategies import BUILT_IN, choose_assignors
from zkbroker.errors import ConfigError


class CalledRange(SimpleAssignor):
    name = "range"

    def share(self, cluster, subscriptions):
        return {}


class NoAssignor:
    name = "none"


class NeedsArguments(RandomAssignor):
    def __init__(self, seed):
        super().__init__()


def chosen(text):
    given = {"bootstrap.servers": "b:1", "partition.assignment.strategy": text}
    return choose_assignors(GroupConsumerConfig.from_properties(given).strategies, ())


@pytest.mark.parametrize(
    "path", ["examples.assignors.RandomAssignor", "examples.assignors:RandomAssignor"]
)
def test_documented_random_assignor_is_found_by_import_path(path):
    (assignor,) = chosen(path)
    assert isinstance(assignor, RandomAssignor)
    assert assignor.name == "random"


def test_strategy_names_and_paths_keep_their_order():
    found = chosen(
        "org.apache.kafka.clients.consumer.StickyAssignor, examples.assignors.RandomAssignor, range"
    )
    assert [each.name for each in found] == ["sticky", "random", "range"]
    assert isinstance(found[0], StickyAssignor)
    assert isinstance(found[2], RangeAssignor)


def test_given_assignor_replaces_strategy_of_same_name():
    mine = RandomAssignor()
    assert choose_assignors(("range", "random"), [mine])[1] is mine


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nonsense", f"give one of {', '.join(BUILT_IN)}, the import path"),
        ("no.such.module:Name", "cannot be imported"),
        (f"{__name__}:Missing", "cannot be imported"),
        (f"{__name__}:NoAssignor", "has no user_data, assign, on_assignment"),
        (f"{__name__}:NeedsArguments", "cannot be made"),
        (f"{__name__}:CalledRange", "calls itself 'range', as a built-in assignor does"),
    ],
)
def test_invalid_assignor_is_refused_with_reason(path, message):
    with pytest.raises(ConfigError, match=message):
        chosen(path)
