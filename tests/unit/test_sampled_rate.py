"""Rates over samples of time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zkbroker.sampled_rate import MAX_THROTTLE_MS, SampledRate

QUOTA = 1000.0


@pytest.fixture
def rate():
    return SampledRate(11, 1000)


def test_rate_within_quota_is_not_throttled(rate):
    rate.record(1000, QUOTA, 0)
    assert rate.throttle_ms(QUOTA, 0) == 0


def test_throttle_time_covers_the_excess(rate):
    """(rate - quota) / quota * window: 3000 B/s over one second, 2 s above 1000 B/s."""
    rate.record(3000, QUOTA, 0)
    assert rate.throttle_ms(QUOTA, 0) == 2000
    assert rate.throttle_ms(QUOTA, 1999) == 1
    assert rate.throttle_ms(QUOTA, 2000) == 0


def test_throttle_time_over_many_samples_matches_genuine_brokers(rate):
    """Ten windows of 400 B, then 2300 B half a second later, at 500 B/s: 600 B/s over 10.5 s."""
    for second in range(10):
        rate.record(400, 500, second * 1000)
        assert rate.throttle_ms(500, second * 1000) == 0
    rate.record(2300, 500, 10_500)
    assert rate.throttle_ms(500, 10_500) == 2100


def test_excess_is_not_forgotten(rate):
    rate.record(50_000, QUOTA, 0)
    assert rate.throttle_ms(QUOTA, 0) == 49_000
    # The empty sample before the first one is gone after ten seconds: it was used.
    assert rate.throttle_ms(QUOTA, 10_000) == 40_000
    assert rate.throttle_ms(QUOTA, 40_000) == 10_000
    assert rate.throttle_ms(QUOTA, 50_000) == 0


def test_unused_allowance_is_forgotten_after_all_samples(rate):
    rate.record(100, QUOTA, 0)
    assert rate.allowance(QUOTA, 5000) == 5900
    assert rate.allowance(QUOTA, 60_000) == 1000
    rate.record(6000, QUOTA, 60_000)
    assert rate.throttle_ms(QUOTA, 60_000) == 5000


def test_throttle_time_is_capped(rate):
    rate.record(1e15, 0.001, 0)
    assert rate.throttle_ms(0.001, 0) == MAX_THROTTLE_MS


@pytest.mark.parametrize("request_bytes", [1000, 16_384, 1_000_000, 3_000_000])
@pytest.mark.parametrize("seconds", [5, 30, 120])
@pytest.mark.parametrize("connections", [1, 7])
def test_greedy_client_gets_its_quota_plus_one_sample(rate, request_bytes, seconds, connections):
    """Each connection sends when its throttle time is over; the rate is shared."""
    quota, now, sent = 1_000_000.0, 0, 0
    free_at = [0] * connections
    while True:
        now = max(now, min(free_at))
        if now >= seconds * 1000:
            break
        sent += request_bytes
        rate.record(request_bytes, quota, now)
        number = free_at.index(min(free_at))
        # A request takes some time even when it is not throttled.
        free_at[number] = now + max(1, rate.throttle_ms(quota, now))
    slack = quota + connections * request_bytes
    assert sent <= quota * seconds + slack
    assert sent >= min(quota * seconds, seconds * 1000 * connections * request_bytes) - slack


def test_greedy_client_stays_within_ten_percent_over_thirty_seconds(rate):
    quota, now, times = 1_000_000.0, 0, []
    while now < 200_000:
        times.append(now)
        rate.record(16_384, quota, now)
        now += max(1, rate.throttle_ms(quota, now))
    for start in range(0, 170_000, 500):
        sent = sum(16_384 for time in times if start <= time < start + 30_000)
        assert 0.9 * quota * 30 <= sent <= 1.1 * quota * 30


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12_000), st.integers(1, 5_000_000)), max_size=20),
    st.integers(100_000, 2_000_000),
)
def test_thirty_seconds_after_any_history_give_the_quota(before, size):
    """An idle client may begin with a burst, which the window counts for its length."""
    quota, now, sent = 1_000_000.0, 0, 0
    rate = SampledRate(11, 1000)
    for pause_ms, amount in before:
        now += pause_ms + rate.throttle_ms(quota, now)
        rate.record(amount, quota, now)
    now += rate.throttle_ms(quota, now)
    counted = rate._sum
    end = now + 30_000
    while now < end:
        rate.record(size, quota, now)
        sent += size
        now += max(1, rate.throttle_ms(quota, now))
    assert 30 * quota - size <= sent + counted
    assert sent <= 31 * quota + size
