"""Connections: the client's, pipelined on either runtime, and the broker's server on gevent.

The server is not imported here: a client on threads must not pay for gevent.
"""

from zkbroker.network.client import BrokerConnection, Pending

__all__ = ["BrokerConnection", "Pending"]
