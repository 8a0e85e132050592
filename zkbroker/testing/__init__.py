"""A cluster inside a test: `LocalCluster`, and the pytest plugin built on it.

    with LocalCluster(brokers=2) as cluster:
        producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

Invariant: a cluster binds only to free ports of 127.0.0.1, keeps its data in its own directory, and
    leaves no processes or files behind.
"""

from zkbroker.testing.local import LocalCluster

__all__ = ["LocalCluster"]
