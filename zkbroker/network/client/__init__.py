"""The client's side of the network: pipelined connections to brokers, on either runtime."""

from zkbroker.network.client.connection import BrokerConnection, Pending

__all__ = ["BrokerConnection", "Pending"]
