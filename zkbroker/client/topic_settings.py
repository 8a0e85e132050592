"""Effective settings of topics, with the brokers' defaults.

A broker is asked for them: the defaults are in the brokers' own settings, not in ZooKeeper.
"""

from collections.abc import Iterable, Mapping, Sequence

from zkbroker.errors import ErrorCode
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import DescribeConfigsRequest
from zkbroker.protocol.messages.configs import ConfigResourceType, DescribeConfigsResource

MIN_ISR = "min.insync.replicas"
CLEANUP = "cleanup.policy"


def topic_settings(
    connection: BrokerConnection,
    topics: Iterable[str],
    names: Iterable[str],
    wait_s: float | None = None,
) -> Mapping[str, Mapping[str, str]]:
    """Return some settings of topics.

    Args:
        connection: to any broker.
        topics: which.
        names: of the settings.
        wait_s: how long to wait for the answer; the connection's time-out by default.

    Returns:
        topic → name → value; empty from brokers before 0.11, which cannot be asked.

    Raises:
        ProtocolError: the broker does not answer.
    """
    wanted = list(names)
    resources = [
        DescribeConfigsResource(ConfigResourceType.TOPIC, name, wanted) for name in sorted(topics)
    ]
    found = described(connection, resources, wait_s)
    return {
        topic: {name: value for name, value in said.items() if name in wanted}
        for topic, said in found.items()
    }


def described(
    connection: BrokerConnection,
    resources: Sequence[DescribeConfigsResource],
    wait_s: float | None = None,
) -> dict[str, dict[str, str]]:
    """Return a broker's description of resources: resource → setting → value."""
    if ApiKey.DESCRIBE_CONFIGS not in connection.versions:
        return {}
    answer = connection.request(DescribeConfigsRequest(list(resources)), timeout_s=wait_s)
    return {
        each.resource_name: {
            entry.name: entry.value for entry in each.entries if entry.value is not None
        }
        for each in answer.resources
        if each.error_code == ErrorCode.NONE
    }
