"""Figures of replicas."""

from types import SimpleNamespace

from tests.support.replicas import EntryLog, decided, make_partition
from zkbroker.broker.replication_metrics import ReplicationFigures, replication_figures
from zkbroker.log import TopicPartition


def led(number, isr, least=1):
    made = make_partition(key=TopicPartition("t", number), log=EntryLog(min_insync_replicas=least))
    made.become_leader(decided(1, 0, isr))
    return made


def test_replication_figures_are_counted():
    whole = led(0, (1, 2, 3), 3)
    short = led(1, (1, 2), 2)
    below = led(2, (1,), 2)
    offline = led(3, (1,))
    offline.mark_offline()
    followed = make_partition(key=TopicPartition("t", 4))
    followed.become_follower(decided(2, 0))
    whole.leadership().replica.shrinks = 1
    below.leadership().replica.shrinks, below.leadership().replica.expands = 2, 1
    fetchers = SimpleNamespace(
        lags=lambda: {followed.key: 7}, failed={followed.key}, fetchers=2, bytes_in=50
    )
    services = SimpleNamespace(
        replicas=SimpleNamespace(all=lambda: [whole, short, below, offline, followed]),
        fetchers=fetchers,
        metrics=SimpleNamespace(replication_bytes_out=60),
    )
    figures = replication_figures(services)
    assert figures == ReplicationFigures(
        partitions=5,
        leaders=3,
        under_replicated=2,
        under_min_isr=1,
        at_min_isr=2,
        offline=1,
        max_lag=7,
        failed=1,
        fetchers=2,
        isr_shrinks=3,
        isr_expands=1,
        bytes_in=50,
        bytes_out=60,
    )
    named = {attribute for attribute, _ in (*figures.GAUGES, *figures.COUNTERS)}
    assert named == set(ReplicationFigures.__slots__)
