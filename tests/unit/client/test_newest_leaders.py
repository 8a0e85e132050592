"""Older leader epochs replace newer ones only after patience or deletion."""

from collections.abc import Iterable

from tests.support.clocks import Clock
from zkbroker.client.newest_leaders import NewestLeaders
from zkbroker.client.view import BrokerAddress, PartitionInfo, View
from zkbroker.errors import UnknownTopicOrPartition


def view(leader: int | None, epoch: int, brokers: Iterable[int] = range(3)) -> View:
    registered = {number: BrokerAddress(number, "b", 9092) for number in brokers}
    return View(registered, {"t": (PartitionInfo("t", 0, leader, epoch),)})


def test_unregistered_leader_becomes_none():
    newest = NewestLeaders(clock=Clock(100))
    newest.merge(view(1, 5))
    assert newest.merge(view(None, -1, [0, 2])) == view(None, 5, [0, 2])
    assert newest.merge(view(0, 4, [0, 2])) == view(None, 5, [0, 2])
    assert newest.merge(view(0, 6, [0, 2])) == view(0, 6, [0, 2])


def test_an_older_epoch_does_not_replace_a_newer_one():
    newest = NewestLeaders(clock=Clock(100))
    assert newest.merge(view(1, 5)) == view(1, 5)
    assert newest.merge(view(0, 4)) == view(1, 5)
    assert newest.merge(view(None, 6)) == view(None, 6)
    assert newest.merge(view(2, 7)) == view(2, 7)


def test_older_epoch_is_accepted_after_patience():
    clock = Clock(100)
    newest = NewestLeaders(patience_s=10, clock=clock)
    newest.merge(view(1, 5))
    newest.merge(view(0, 0))
    clock.now += 9.9
    assert newest.merge(view(0, 0)) == view(1, 5)
    clock.now += 0.2
    assert newest.merge(view(0, 0)) == view(0, 0)


def test_patience_restarts_after_a_newer_answer():
    clock = Clock(100)
    newest = NewestLeaders(patience_s=10, clock=clock)
    newest.merge(view(1, 5))
    newest.merge(view(0, 0))
    clock.now += 9
    newest.merge(view(1, 5))
    clock.now += 2
    assert newest.merge(view(0, 0)) == view(1, 5)


def test_deleted_topic_accepts_older_epoch_at_once():
    newest = NewestLeaders(clock=Clock(100))
    newest.merge(view(1, 5))
    gone = View(view(0, 0).brokers, {"t": UnknownTopicOrPartition("t")})
    assert newest.merge(gone) == gone
    assert newest.merge(view(0, 0)) == view(0, 0)


def test_view_without_epochs_is_accepted():
    newest = NewestLeaders(clock=Clock(100))
    newest.merge(view(1, -1))
    assert newest.merge(view(2, -1)) == view(2, -1)
