"""Quotas: limits of bytes and request time for users and clients, and throttling above them.

    /config/users, /config/clients --> QuotaTable --> ClientQuotas --> Throttling --> dispatcher

Invariant: this package knows neither sockets nor ZooKeeper. While no quota is set, the dispatcher
has no `Throttling`, which costs nothing.
"""

from zkbroker.broker.quotas.client_quotas import ClientLimits, ClientQuotas, QuotaWindows
from zkbroker.broker.quotas.table import QuotaKind, QuotaTable
from zkbroker.broker.quotas.throttling import Throttling, throttled_produce

__all__ = [
    "ClientLimits",
    "ClientQuotas",
    "QuotaKind",
    "QuotaTable",
    "QuotaWindows",
    "Throttling",
    "throttled_produce",
]
