"""The options of a broker by what they are for; `BrokerConfig` is all of them together.

Invariant: an option stands in one file, and is a field of `BrokerConfig` under the same name.
Sizes are in bytes, times in milliseconds, where the name says nothing else.
"""

from zkbroker.config.broker_options.admin import AdminOptions
from zkbroker.config.broker_options.authorization import AuthorizationOptions
from zkbroker.config.broker_options.controller import ControllerOptions
from zkbroker.config.broker_options.groups import GroupOptions
from zkbroker.config.broker_options.identity import IdentityOptions
from zkbroker.config.broker_options.listeners import ListenerOptions
from zkbroker.config.broker_options.logging import LoggingOptions
from zkbroker.config.broker_options.quotas import QuotaOptions
from zkbroker.config.broker_options.replication import ReplicationOptions
from zkbroker.config.broker_options.requests import RequestOptions
from zkbroker.config.broker_options.topics import TopicOptions
from zkbroker.config.broker_options.transactions import TransactionOptions

__all__ = [
    "AdminOptions",
    "AuthorizationOptions",
    "ControllerOptions",
    "GroupOptions",
    "IdentityOptions",
    "ListenerOptions",
    "LoggingOptions",
    "QuotaOptions",
    "ReplicationOptions",
    "RequestOptions",
    "TopicOptions",
    "TransactionOptions",
]
