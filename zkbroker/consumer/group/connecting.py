"""The cluster of a group consumer, from its settings."""

from zkbroker.client import Cluster, StaticSource, ZooKeeperSource
from zkbroker.config.group_consumer import GroupConsumerConfig
from zkbroker.runtime import Runtime


def connect(config: GroupConsumerConfig, runtime: Runtime) -> Cluster:
    """Return the cluster that a configuration names, started.

    Raises:
        ZkbrokerError: neither a broker nor ZooKeeper can be reached; says what to change.
    """
    return Cluster(
        StaticSource(config.bootstrap_servers)
        if config.bootstrap_servers
        else ZooKeeperSource(config.zookeeper_connect, security=config.security.zookeeper),
        runtime=runtime,
        client_id=config.client_id,
        max_age_ms=config.metadata_max_age_ms,
        request_timeout_ms=config.request_timeout_ms,
        receive_buffer_bytes=config.receive_buffer_bytes,
        security=config.security,
    ).start()
