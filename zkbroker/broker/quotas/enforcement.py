"""Gives the dispatcher the present quotas: at the start, and after each change.

Invariant: the dispatcher throttles while at least one quota is set, in ZooKeeper or in the broker's
settings, and has no meters otherwise. When a quota changes, no connection stays muted because of
the old one.
"""

from collections.abc import Callable

from zkbroker.broker.dispatcher import Dispatcher
from zkbroker.broker.quotas.client_quotas import ClientQuotas, QuotaWindows
from zkbroker.broker.quotas.table import QuotaKind, QuotaTable
from zkbroker.broker.quotas.throttling import Throttling
from zkbroker.broker.user_settings import UserSettings
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.broker_options.quotas import NO_QUOTA
from zkbroker.registry.user_configs import UserConfigs
from zkbroker.runtime import Runtime


def default_quotas(config: BrokerConfig) -> dict[QuotaKind, float]:
    """Return the quotas that a broker's own settings give to every client."""
    given = {
        QuotaKind.PRODUCE: config.quota_producer_default,
        QuotaKind.FETCH: config.quota_consumer_default,
    }
    return {kind: quota for kind, quota in given.items() if quota < NO_QUOTA}


def enforce_quotas(
    dispatcher: Dispatcher,
    config: BrokerConfig,
    users: UserSettings,
    runtime: Runtime,
    unmute: Callable[[], object],
) -> ClientQuotas:
    """Make a dispatcher throttle by the present and future quotas of users and clients.

    `unmute` lets muted connections go on.
    """
    windows = QuotaWindows(config.quota_windows, config.quota_window_s * 1000, config.quota_clients)
    quotas = ClientQuotas(runtime.clock_ms, windows)
    throttling, defaults = Throttling(quotas), default_quotas(config)

    def take(configs: UserConfigs) -> None:
        if quotas.take(QuotaTable(configs, defaults)):
            unmute()
        dispatcher.throttling = None if quotas.empty else throttling

    users.on_change(take)
    return quotas
