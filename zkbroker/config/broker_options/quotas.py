"""Quotas of clients for which none is set in ZooKeeper, and how rates are measured."""

from dataclasses import dataclass

from zkbroker.config.schema import Int, Int32, option

NO_QUOTA = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class QuotaOptions:
    """Default quotas, and the windows over which rates are measured."""

    # fmt: off
    quota_producer_default: int = option("quota.producer.default", Int(1), NO_QUOTA,
        "Bytes a second that a client id may produce to this broker, where `/config/users` and "
        "`/config/clients` have no quota for it. Deprecated since 0.11: set one in ZooKeeper.")
    quota_consumer_default: int = option("quota.consumer.default", Int(1), NO_QUOTA,
        "Bytes a second that a client id may fetch from this broker, where `/config/users` and "
        "`/config/clients` have no quota for it. Deprecated since 0.11: set one in ZooKeeper.")
    quota_windows: int = option("quota.window.num", Int32(1), 11,
        "Number of windows over which the rate of a client with a quota is measured.")
    quota_window_s: int = option("quota.window.size.seconds", Int32(1), 1,
        "Length of each of these windows in seconds.")
    quota_clients: int = option("quota.clients.max", Int32(1), 10_000,
        "Most users and clients with quotas whose rates are kept; beyond it the least recently "
        "active one is forgotten.")
    # fmt: on
