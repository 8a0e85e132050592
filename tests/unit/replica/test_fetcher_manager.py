"""The assignment of followed partitions to fetchers."""

import pytest

from tests.support.fake_leader import FakeLeader, StillRuntime
from tests.support.replicas import EntryLog, decided, make_partition
from zkbroker.log import TopicPartition
from zkbroker.replica.fetcher_manager import FetcherManager
from zkbroker.replica.fetching import FetcherSettings


def manager(**settings):
    return FetcherManager(
        2,
        FakeLeader().connect,
        FetcherSettings(**settings),
        runtime=StillRuntime(),  # type: ignore[arg-type]
    )


def follower(number=0, leader=1, epoch=0):
    made = make_partition(2, key=TopicPartition("t", number))
    made.become_follower(decided(leader, epoch))
    return made


def fetcher_of_partition(fetchers):
    return {
        key.partition: place
        for place, each in fetchers._fetchers.items()
        for key in each.followed.by_key
    }


def followed(fetchers, partition, leader=1):
    return fetchers._fetchers[leader, 0].followed.by_key[partition.key]


def test_partitions_are_spread_over_fetchers_of_their_leader():
    fetchers = manager(fetchers=3)
    fetchers.follow(follower(number, 1 + number % 2).role for number in range(12))
    found = fetcher_of_partition(fetchers)
    assert len(found) == 12
    # |31 * "t".hashCode() + partition| mod 3, as in genuine brokers.
    assert all(found[n] == (1 + n % 2, (31 * 116 + n) % 3) for n in range(12))
    assert fetchers.fetchers == 6


def test_partition_moves_to_new_leader_and_idle_fetcher_ends():
    fetchers = manager()
    moved, other = follower(0), follower(1)
    fetchers.follow([moved.role, other.role])
    old = fetchers._fetchers[1, 0]
    moved.become_follower(decided(3, 1))
    fetchers.forget([moved.key])
    fetchers.follow([moved.role])
    assert fetcher_of_partition(fetchers) == {0: (3, 0), 1: (1, 0)}
    fetchers.forget([other.key])
    fetchers.follow([])
    assert fetcher_of_partition(fetchers) == {0: (3, 0)}
    assert old._loop.closed
    assert fetchers.fetchers == 1


def test_bytes_of_ended_fetchers_are_counted():
    fetchers = manager()
    one = follower(0)
    fetchers.follow([one.role])
    fetchers._fetchers[1, 0].bytes_in = 100
    fetchers.forget([one.key])
    fetchers.follow([])
    assert (fetchers.fetchers, fetchers.bytes_in) == (0, 100)


def test_closed_manager_follows_no_partition():
    fetchers = manager()
    fetchers.follow([follower(0).role])
    fetchers.close(0)
    fetchers.follow([follower(1).role])
    assert fetchers.fetchers == 0
    assert fetchers.lags() == {}


def test_new_epoch_of_same_leader_truncates_in_same_fetcher():
    fetchers = manager()
    one = follower(0)
    fetchers.follow([one.role])
    followed(fetchers, one).truncating = False
    one.become_follower(decided(1, 1))
    fetchers.forget([one.key])
    fetchers.follow([one.role])
    assert followed(fetchers, one).truncating


@pytest.mark.parametrize("led_meanwhile", [False, True])
def test_level_0_8_2_truncates_only_for_new_leader(led_meanwhile):
    fetchers = manager(level="0.8.2")
    one = make_partition(2, log=EntryLog([(0, 1), (0, 2)]))
    one.become_follower(decided(1, 0))
    fetchers.follow([one.role])
    assert followed(fetchers, one).truncating
    fetchers.forget([one.key])
    if led_meanwhile:
        one.become_leader(decided(2, 1))
    one.become_follower(decided(1, 2))
    fetchers.follow([one.role])
    assert followed(fetchers, one).truncating is led_meanwhile
    one.become_follower(decided(3, 3))
    fetchers.follow([one.role])
    assert followed(fetchers, one, leader=3).truncating


def test_resize_spreads_partitions_and_keeps_stages():
    fetchers = manager(fetchers=1)
    followers = [follower(number) for number in range(6)]
    fetchers.follow(followers)
    by_key = fetchers._fetchers[1, 0].followed.by_key
    by_key[followers[0].key].truncating = False
    for count in (3, 2, 2, 1):
        fetchers.resize(count)
        assert fetcher_of_partition(fetchers) == {n: (1, (31 * 116 + n) % count) for n in range(6)}
        assert fetchers.fetchers == count
    # Each partition keeps its stage.
    stages = {
        key.partition: each.truncating
        for key, each in fetchers._fetchers[1, 0].followed.by_key.items()
    }
    assert stages == {0: False} | dict.fromkeys(range(1, 6), True)
