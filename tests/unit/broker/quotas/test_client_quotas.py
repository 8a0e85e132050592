"""Rates are shared by those who share a quota, and bounded in number."""

from zkbroker.broker.quotas.client_quotas import ClientQuotas, QuotaWindows
from zkbroker.broker.quotas.table import QuotaKind, QuotaTable
from zkbroker.registry.user_configs import DEFAULT, ConfigEntity, UserConfigs

PRODUCE, FETCH, REQUEST = QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST


def _quotas(settings, **windows):
    quotas = ClientQuotas(lambda: 0, QuotaWindows(**windows))
    quotas.take(QuotaTable(UserConfigs(settings)))
    return quotas


def test_all_clients_of_a_user_share_the_users_quota():
    quotas = _quotas({ConfigEntity(user="u"): {PRODUCE: "100"}})
    assert quotas.record(quotas.limits("u", "a"), PRODUCE, 100) == 0
    assert quotas.record(quotas.limits("u", "b"), PRODUCE, 100) == 1000
    assert quotas.record(quotas.limits("v", "a"), PRODUCE, 100) == 0


def test_a_default_is_no_shared_quota():
    quotas = _quotas({ConfigEntity(client=DEFAULT): {PRODUCE: "100"}})
    assert quotas.record(quotas.limits("u", "a"), PRODUCE, 200) == 1000
    assert quotas.record(quotas.limits("u", "b"), PRODUCE, 100) == 0


def test_kinds_have_rates_of_their_own():
    quotas = _quotas({ConfigEntity(user="u"): {PRODUCE: "100", FETCH: "100"}})
    limits = quotas.limits("u", "a")
    assert quotas.record(limits, PRODUCE, 300) == 2000
    assert quotas.throttle_ms(limits, FETCH) == 0
    assert quotas.allowance(limits, FETCH) == 100
    assert quotas.allowance(limits, REQUEST) is None
    assert quotas.record(limits, REQUEST, 10) == 0


def test_request_time_is_a_percentage_of_one_thread_and_throttles_a_second_at_most():
    quotas = _quotas({ConfigEntity(user="u"): {REQUEST: "50"}})
    limits = quotas.limits("u", "a")
    assert quotas.record(limits, REQUEST, 500) == 0
    assert quotas.record(limits, REQUEST, 250) == 500
    assert quotas.record(limits, REQUEST, 5000) == 1000


def test_a_rate_begins_again_when_its_quota_changes_and_goes_on_when_another_does():
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


def test_the_number_of_rates_is_bounded():
    quotas = _quotas({ConfigEntity(client=DEFAULT): {PRODUCE: "100"}}, max_keys=3)
    busy = quotas.limits("u", "busy")
    quotas.record(busy, PRODUCE, 300)
    for number in range(50):
        quotas.record(quotas.limits("u", f"c{number}"), PRODUCE, 1)
        assert quotas.throttle_ms(busy, PRODUCE) == 2000
    assert quotas.rates == 3


def test_long_client_ids_take_no_memory_and_keep_rates_of_their_own():
    quotas = _quotas({ConfigEntity(client=DEFAULT): {PRODUCE: "100"}})
    one, other = quotas.limits("u", "a" * 30_000), quotas.limits("u", "a" * 30_001)
    assert max(len(each) for each in one.found[PRODUCE][0]) < 100
    assert quotas.record(one, PRODUCE, 200) == 1000
    assert quotas.record(other, PRODUCE, 100) == 0


def test_a_quota_of_a_long_client_id_is_found():
    client = "a" * 300
    quotas = _quotas({ConfigEntity(client=client): {PRODUCE: "100"}})
    assert quotas.record(quotas.limits("u", client), PRODUCE, 200) == 1000
