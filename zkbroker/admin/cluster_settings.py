"""Brokers' defaults for settings that a topic does not have, such as `min.insync.replicas`.

ZooKeeper does not have the brokers' own settings, so brokers are asked, one after the other. Those
before 0.11 cannot be asked.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence

from zkbroker.client import Cluster
from zkbroker.client.topic_settings import MIN_ISR, described, topic_settings
from zkbroker.errors import ClientError, ZkbrokerError
from zkbroker.protocol.messages.configs import ConfigResourceType, DescribeConfigsResource

logger = logging.getLogger(__name__)

NUM_PARTITIONS = "num.partitions"
CONNECT = "zookeeper.connect"
REPLICATION_FACTOR = "default.replication.factor"


def effective_min_isr(cluster: Cluster, topics: Iterable[str]) -> dict[str, int]:
    """Return `min.insync.replicas` of topics, or the brokers' default for it.

    Returns:
        topic → replicas; empty when no broker can be asked (those before 0.11 cannot).
    """
    wanted = sorted(topics)
    if not wanted:
        return {}
    try:
        answer = cluster.ask_any(
            lambda connection, wait_s: topic_settings(connection, wanted, [MIN_ISR], wait_s)
        )
    except ZkbrokerError as error:
        logger.info("settings not described topics=%d error=%s", len(wanted), error)
        return {}
    return {name: int(found[MIN_ISR]) for name, found in answer.items() if MIN_ISR in found}


def broker_defaults(cluster: Cluster, names: Sequence[str]) -> dict[str, int]:
    """Return a broker's values of settings that are whole numbers.

    Raises:
        ClientError: no broker can be asked.
    """
    failures: list[ZkbrokerError] = []
    for found in _own_settings(cluster, names, failures):
        if all(name in found for name in names):
            return {name: int(found[name]) for name in names}
    reasons = "".join(f" ({each})" for each in failures[:1])
    raise ClientError(f"no broker could be asked for {' and '.join(names)}{reasons}")


def zookeeper_of(cluster: Cluster) -> str:
    """Return `zookeeper.connect` of a cluster's brokers, with the chroot.

    Raises:
        ClientError: no broker answers, or none shows it to this client.
    """
    failures: list[ZkbrokerError] = []
    for found in _own_settings(cluster, [CONNECT], failures):
        if found.get(CONNECT):
            return found[CONNECT]
    raise ClientError(
        "the brokers do not name their ZooKeeper: they are older than 0.11, or this client "
        "may not describe the settings of the cluster; give -z HOST:PORT[/CHROOT]"
    ) from (failures[-1] if failures else None)


def _own_settings(
    cluster: Cluster, names: Sequence[str], failures: list[ZkbrokerError]
) -> Iterator[dict[str, str]]:
    """Ask each broker for its own settings, and yield them: no broker describes another.

    Errors are logged, and added to `failures`.
    """
    for broker in sorted(cluster.brokers()):
        resource = DescribeConfigsResource(ConfigResourceType.BROKER, str(broker), list(names))
        try:
            answer = described(cluster.connection(broker), [resource])
        except ZkbrokerError as error:
            logger.info("settings not described broker=%d error=%s", broker, error)
            failures.append(error)
        else:
            yield from answer.values()
