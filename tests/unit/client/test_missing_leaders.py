"""Texts and warnings of partitions without a leader."""

import logging

import pytest

from tests.support.clocks import Clock
from tests.support.inline_runtime import InlineRuntime
from zkbroker.client import BrokerAddress, PartitionInfo
from zkbroker.client.missing_leaders import WARN_AFTER_S, MissingLeaders, explain
from zkbroker.client.view import View
from zkbroker.errors import LeaderNotAvailable


def registered(*ids):
    return {number: BrokerAddress(number, "b", 9092) for number in ids}


@pytest.mark.parametrize(
    ("replicas", "isr", "up", "expected"),
    [
        ((), (), (1,), "t-0 has no leader"),
        ((1,), (1,), (), "replicas are on broker 1, in sync 1; not registered: 1. Start broker 1"),
        (
            (1, 2, 3),
            (2, 3),
            (1,),
            "are on brokers 1, 2, 3, in sync 2, 3; not registered: 2, 3. Start one of brokers 2, 3",
        ),
        ((1, 2, 3), (3,), (1, 2), "in sync 3; not registered: 3. Start broker 3"),
        ((1, 2), (), (1,), "are on brokers 1, 2; not registered: 2. Start what is missing"),
        ((1, 2), (1, 2), (1,), "not registered: 2; the controller has not chosen another one"),
        ((1, 2), (1, 2), (1, 2), "all of these are registered, and the controller has not chosen"),
    ],
)
def test_explanation_names_missing_brokers(replicas, isr, up, expected):
    info = PartitionInfo("t", 0, None, 3, replicas, isr)
    assert expected in explain(info, registered(*up))


def view(*leaders, isr=(1,)):
    partitions = tuple(
        PartitionInfo("t", number, leader, 0, (1, 2), isr) for number, leader in enumerate(leaders)
    )
    return View(registered(2), {"t": partitions, "gone": LeaderNotAvailable("")})


def test_leaderless_partition_is_warned_of_once(caplog):
    caplog.set_level(logging.WARNING)
    clock = Clock(0)
    missing = MissingLeaders(InlineRuntime(clock))
    missing.note(view(None, 2))
    clock.advance(WARN_AFTER_S * 500)
    missing.note(view(None, 2))
    assert not caplog.messages, "an election takes as long"
    for _ in range(3):
        clock.advance(WARN_AFTER_S * 1000)
        missing.note(view(None, 2))
    (warning,) = caplog.messages
    assert "t-0 has no leader" in warning
    assert "Start broker 1" in warning


def test_warning_repeats_after_partition_had_leader(caplog):
    caplog.set_level(logging.WARNING)
    clock = Clock(0)
    missing = MissingLeaders(InlineRuntime(clock))
    for leader in (None, None, 2, None, None):
        missing.note(view(leader))
        clock.advance(WARN_AFTER_S * 1000)
    assert len(caplog.messages) == 2


def test_many_leaderless_partitions_share_one_warning(caplog):
    caplog.set_level(logging.WARNING)
    clock = Clock(0)
    missing = MissingLeaders(InlineRuntime(clock))
    for _ in range(2):
        missing.note(view(*[None] * 10))
        clock.advance(WARN_AFTER_S * 1000)
    (warning,) = caplog.messages
    assert warning.count("has no leader") == 3
    assert warning.endswith("and 7 more partitions")


def test_missing_isr_is_completed_from_previous_view():
    missing = MissingLeaders(InlineRuntime())
    before = view(1, 2)
    after = missing.complete(view(None, 2, isr=()), before)
    assert [each.isr for each in after.topics["t"]] == [(1,), ()]
    assert missing.complete(before, View()) is before
