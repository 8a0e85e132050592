"""Clients that share a quota share a rate; the number of rates is bounded."""

from zkbroker.broker.quotas.client_quotas import ClientQuotas, QuotaWindows
from zkbroker.broker.quotas.table import QuotaKind, QuotaTable
from zkbroker.registry.user_configs import DEFAULT, ConfigEntity, UserConfigs

PRODUCE, FETCH, REQUEST = QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST


def _quotas(settings, **windows):
    quotas = ClientQuotas(lambda: 0, QuotaWindows(**windows))
    quotas.take(QuotaTable(UserConfigs(settings)))
    return quotas


def test_clients_of_a_user_share_its_quota():
    quotas = _quotas({ConfigEntity(user="u"): {PRODUCE: "100"}})
    assert quotas.record(quotas.limits("u", "a"), PRODUCE, 100) == 0
    assert quotas.record(quotas.limits("u", "b"), PRODUCE, 100) == 1000
    assert quotas.record(quotas.limits("v", "a"), PRODUCE, 100) == 0


def test_default_quota_applies_per_client():
    quotas = _quotas({ConfigEntity(client=DEFAULT): {PRODUCE: "100"}})
    assert quotas.record(quotas.limits("u", "a"), PRODUCE, 200) == 1000
    assert quotas.record(quotas.limits("u", "b"), PRODUCE, 100) == 0


def test_each_quota_kind_has_its_own_rate():
    quotas = _quotas({ConfigEntity(user="u"): {PRODUCE: "100", FETCH: "100"}})
    limits = quotas.limits("u", "a")
    assert quotas.record(limits, PRODUCE, 300) == 2000
    assert quotas.throttle_ms(limits, FETCH) == 0
    assert quotas.allowance(limits, FETCH) == 100
    assert quotas.allowance(limits, REQUEST) is None
    assert quotas.record(limits, REQUEST, 10) == 0


def test_request_quota_is_percent_of_one_thread_and_throttles_at_most_one_second():
    quotas = _quotas({ConfigEntity(user="u"): {REQUEST: "50"}})
    limits = quotas.limits("u", "a")
    assert quotas.record(limits, REQUEST, 500) == 0
    assert quotas.record(limits, REQUEST, 250) == 500
    assert quotas.record(limits, REQUEST, 5000) == 1000


def test_rate_restarts_only_when_its_own_quota_changes():
    quotas = _quotas({ConfigEntity(user="u"): {PRODUCE: "100"}})
    quotas.record(quotas.limits("u", "a"), PRODUCE, 200)
    before = quotas.generation
    other = {ConfigEntity(user="u"): {PRODUCE: "100"}, ConfigEntity(user="v"): {PRODUCE: "1"}}
    assert quotas.take(QuotaTable(UserConfigs(other)))
    assert quotas.throttle_ms(quotas.limits("u", "a"), PRODUCE) == 1000
    assert not quotas.take(QuotaTable(UserConfigs(other)))
    quotas.take(QuotaTable(UserConfigs({ConfigEntity(user="u"): {PRODUCE: "50"}})))
    assert quotas.generation == before + 2
    assert quotas.throttle_ms(quotas.limits("u", "a"), PRODUCE) == 0
    quotas.take(QuotaTable())
    assert quotas.empty


def test_number_of_rates_is_bounded():
    quotas = _quotas({ConfigEntity(client=DEFAULT): {PRODUCE: "100"}}, max_keys=3)
    busy = quotas.limits("u", "busy")
    quotas.record(busy, PRODUCE, 300)
    for number in range(50):
        quotas.record(quotas.limits("u", f"c{number}"), PRODUCE, 1)
        assert quotas.throttle_ms(busy, PRODUCE) == 2000
    assert quotas.rates == 3


def test_long_client_ids_use_short_keys_and_separate_rates():
    quotas = _quotas({ConfigEntity(client=DEFAULT): {PRODUCE: "100"}})
    one, other = quotas.limits("u", "a" * 30_000), quotas.limits("u", "a" * 30_001)
    assert max(len(each) for each in one.found[PRODUCE][0]) < 100
    assert quotas.record(one, PRODUCE, 200) == 1000
    assert quotas.record(other, PRODUCE, 100) == 0


def test_quota_of_long_client_id_is_found():
    client = "a" * 300
    quotas = _quotas({ConfigEntity(client=client): {PRODUCE: "100"}})
    assert quotas.record(quotas.limits("u", client), PRODUCE, 200) == 1000
