"""The quota that applies to a client: the order of KIP-55."""

import pytest

from zkbroker.broker.quotas.table import QuotaKind, QuotaTable, quota_of, tell_invalid_quotas
from zkbroker.registry.user_configs import DEFAULT, ConfigEntity, UserConfigs

PRODUCE = QuotaKind.PRODUCE

ORDER = [
    (ConfigEntity(user="u", client="c"), ("u", "c")),
    (ConfigEntity(user="u", client=DEFAULT), ("u", "c")),
    (ConfigEntity(user="u"), ("u", "")),
    (ConfigEntity(user=DEFAULT, client="c"), ("u", "c")),
    (ConfigEntity(user=DEFAULT, client=DEFAULT), ("u", "c")),
    (ConfigEntity(user=DEFAULT), ("u", "")),
    (ConfigEntity(client="c"), ("", "c")),
    (ConfigEntity(client=DEFAULT), ("", "c")),
]


@pytest.mark.parametrize("first", range(len(ORDER)))
def test_most_specific_quota_wins(first):
    configs = UserConfigs(
        {
            entity: {PRODUCE: str(number + 1)}
            for number, (entity, _) in enumerate(ORDER)
            if number >= first
        }
    )
    table = QuotaTable(configs, {PRODUCE: 99.0})
    assert table.find(PRODUCE, "u", "c") == (ORDER[first][1], first + 1.0)
    assert table.find(QuotaKind.FETCH, "u", "c") is None


def test_broker_default_quota_comes_last():
    table = QuotaTable(UserConfigs(), {PRODUCE: 99.0})
    assert table.find(PRODUCE, "u", "c") == (("", "c"), 99.0)
    assert not table.empty
    assert QuotaTable().empty


def test_each_quota_kind_is_looked_up_separately():
    table = QuotaTable(
        UserConfigs(
            {
                ConfigEntity(user="u"): {QuotaKind.REQUEST: "50"},
                ConfigEntity(client="c"): {PRODUCE: "7"},
            }
        )
    )
    assert table.find(QuotaKind.REQUEST, "u", "c") == (("u", ""), 50.0)
    assert table.find(PRODUCE, "u", "c") == (("", "c"), 7.0)
    assert table.find(PRODUCE, "u", "other") is None


def test_quota_does_not_apply_to_other_users_or_clients():
    table = QuotaTable(UserConfigs({ConfigEntity(user="u", client="c"): {PRODUCE: "7"}}))
    assert table.find(PRODUCE, "v", "c") is None
    assert table.find(PRODUCE, "u", "d") is None


@pytest.mark.parametrize(
    ("text", "quota"),
    [("1024", 1024.0), ("0.5", 0.5), ("0", None), ("-1", None), ("x", None), ("NaN", None),
     ("Infinity", None)],
)  # fmt: skip
def test_quota_value_is_parsed(text, quota):
    assert quota_of(text) == quota


def test_invalid_quota_is_logged_and_ignored(caplog):
    configs = UserConfigs({ConfigEntity(user="u"): {PRODUCE: "fast", "SCRAM-SHA-256": "secret"}})
    assert QuotaTable(configs).empty
    tell_invalid_quotas(UserConfigs(), configs)
    assert "users/u key=producer_byte_rate value='fast'" in caplog.text
    assert "secret" not in caplog.text


def test_address_settings_are_not_client_quotas():
    configs = UserConfigs({ConfigEntity(ip="10.0.0.1"): {PRODUCE: "1"}})
    assert QuotaTable(configs).empty
