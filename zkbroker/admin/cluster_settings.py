"""What new topics get, and how many replicas have to be in sync, where the topic does not say it.

These defaults stand in the brokers' own settings, which ZooKeeper does not know: a broker is asked,
the first that answers. Brokers before 0.11 cannot be asked.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from zkbroker.client import Cluster
from zkbroker.client.topic_settings import MIN_ISR, described
from zkbroker.config.security import NO_SECURITY, ClientSecurity
from zkbroker.errors import ClientError, ZkbrokerError
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol.messages.configs import ConfigResourceType, DescribeConfigsResource
from zkbroker.registry.brokers import list_brokers
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession

__all__ = ["MIN_ISR", "broker_defaults", "effective_min_isr"]

logger = logging.getLogger(__name__)

NUM_PARTITIONS = "num.partitions"
CONNECT = "zookeeper.connect"
REPLICATION_FACTOR = "default.replication.factor"
ANSWER_MS = 5_000


def effective_min_isr(
    session: ZkSession,
    topics: Iterable[str],
    *,
    timeout_ms: int = ANSWER_MS,
    security: ClientSecurity = NO_SECURITY,
) -> dict[str, int]:
    """Return `min.insync.replicas` of topics, with the brokers' default where they do not say.

    Args:
        session: a started session.
        topics: which.
        timeout_ms: how long each broker may take to connect, and to answer.
        security: how brokers are connected to.

    Returns:
        topic → replicas; empty when no broker can be asked (those before 0.11 cannot).
    """
    wanted = sorted(topics)
    if not wanted:
        return {}
    resources = [
        DescribeConfigsResource(ConfigResourceType.TOPIC, name, [MIN_ISR]) for name in wanted
    ]
    answer, _ = _ask_a_broker(session, lambda _: resources, timeout_ms, security)
    return {name: int(found[MIN_ISR]) for name, found in answer.items() if MIN_ISR in found}


def broker_defaults(
    session: ZkSession,
    names: Sequence[str],
    *,
    timeout_ms: int = ANSWER_MS,
    security: ClientSecurity = NO_SECURITY,
) -> dict[str, int]:
    """Return settings that are whole numbers, as a broker has them.

    Args:
        session: a started session.
        names: which settings.
        timeout_ms: how long each broker may take to connect, and to answer.
        security: how brokers are connected to.

    Raises:
        ClientError: no broker can be asked.
    """
    answer, failures = _ask_a_broker(
        session,
        lambda broker: [
            DescribeConfigsResource(ConfigResourceType.BROKER, str(broker), list(names))
        ],
        timeout_ms,
        security,
    )
    found = {name: int(value) for each in answer.values() for name, value in each.items()}
    missing = [name for name in names if name not in found]
    if missing:
        reasons = "".join(f" ({each})" for each in failures[:1])
        raise ClientError(f"no broker could be asked for {' and '.join(missing)}{reasons}")
    return found


def zookeeper_of(cluster: Cluster) -> str:
    """Return `zookeeper.connect` as the brokers of a cluster have it, with the chroot.

    Raises:
        ClientError: no broker answers, or none may tell it.
    """
    failure: ZkbrokerError | None = None
    # A broker describes itself alone.
    for broker in sorted(cluster.brokers()):
        resource = DescribeConfigsResource(ConfigResourceType.BROKER, str(broker), [CONNECT])
        try:
            answer = described(cluster.connection(broker), [resource])
        except ZkbrokerError as error:
            failure = error
            continue
        found = answer.get(str(broker), {}).get(CONNECT)
        if found:
            return found
    raise ClientError(
        "the brokers do not say where their ZooKeeper is: they are older than 0.11, or this client "
        "may not describe the settings of the cluster; give -z HOST:PORT[/CHROOT]"
    ) from failure


def _ask_a_broker(
    session: ZkSession,
    resources: Callable[[int], list[DescribeConfigsResource]],
    timeout_ms: int,
    security: ClientSecurity,
) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Return what the first broker says that answers, and why those before it did not.

    The first is resource → setting → value, empty where none answers.
    """
    failures: list[str] = []
    for broker in list_brokers(session).values():
        endpoint = broker.endpoint_of(security.protocol)
        if endpoint is None:
            failures.append(
                f"broker {broker.id} has no listener of security.protocol={security.protocol}"
            )
            continue
        try:
            with BrokerConnection(
                get_runtime("threads"),
                *endpoint,
                connect_timeout_ms=timeout_ms,
                request_timeout_ms=timeout_ms,
                security=security,
            ) as connection:
                return described(connection, resources(broker.id)), failures
        except ZkbrokerError as error:
            logger.info("settings not described broker=%d error=%s", broker.id, error)
            failures.append(str(error))
    return {}, failures
