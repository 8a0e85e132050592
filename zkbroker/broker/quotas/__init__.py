"""Quotas: how much a user or a client may send, fetch and have done, and what comes of more.

    /config/users, /config/clients --> QuotaTable --> ClientQuotas --> Throttling --> dispatcher

Invariant: nothing here knows sockets or ZooKeeper. While no quota is set, the dispatcher has no
`Throttling` and pays nothing.
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
