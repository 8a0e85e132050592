"""Quotas: limits of bytes and request time for users and clients, and throttling above them.

    /config/users, /config/clients --> QuotaTable --> ClientQuotas --> Throttling --> dispatcher

Invariant: this package knows neither sockets nor ZooKeeper. While no quota is set, the dispatcher
has no `Throttling`, which costs nothing.
"""
