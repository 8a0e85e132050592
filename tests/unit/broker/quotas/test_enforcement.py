"""The dispatcher throttles while a quota is set."""

from types import SimpleNamespace

from tests.support.replicas import PlainRuntime
from zkbroker.broker.quotas.enforcement import default_quotas, enforce_quotas
from zkbroker.broker.quotas.table import QuotaKind
from zkbroker.broker.user_settings import UserSettings
from zkbroker.config.broker import BrokerConfig
from zkbroker.registry.user_configs import ConfigEntity, UserConfigs

ZK = {"zookeeper.connect": "x"}


def _config(**given):
    return BrokerConfig.from_properties(ZK | {k.replace("_", "."): v for k, v in given.items()})


def test_throttling_is_on_only_while_a_quota_is_set():
    dispatcher, users = SimpleNamespace(throttling=None), UserSettings()
    unmuted = []
    quotas = enforce_quotas(
        dispatcher, _config(), users, PlainRuntime(lambda: 0), lambda: unmuted.append(1)
    )
    assert dispatcher.throttling is None
    users.take(UserConfigs({ConfigEntity(user="u"): {"producer_byte_rate": "5"}}))
    assert dispatcher.throttling is not None
    assert quotas.limits("u", "c").found == {QuotaKind.PRODUCE: (("u", ""), 5.0)}
    users.take(UserConfigs({ConfigEntity(user="u"): {"SCRAM-SHA-256": "x"}}))
    assert dispatcher.throttling is None
    assert len(unmuted) == 2
    users.take(UserConfigs({ConfigEntity(user="v"): {"SCRAM-SHA-256": "x"}}))
    assert len(unmuted) == 2


def test_broker_default_quota_applies_to_every_client():
    config = _config(quota_producer_default="1024", quota_window_num="3")
    assert default_quotas(config) == {QuotaKind.PRODUCE: 1024.0}
    assert default_quotas(_config()) == {}
    dispatcher = SimpleNamespace(throttling=None)
    quotas = enforce_quotas(
        dispatcher, config, UserSettings(), PlainRuntime(lambda: 0), lambda: None
    )
    assert dispatcher.throttling is not None
    assert quotas.windows.number == 3
    assert quotas.limits("u", "c").found[QuotaKind.PRODUCE] == (("", "c"), 1024.0)
