"""A cluster inside a test: `LocalCluster`, and the pytest plugin built on it.

    with LocalCluster(brokers=2) as cluster:
        producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

Invariant: a cluster binds to 127.0.0.1 on free ports only, keeps its data in a directory of its
own, and leaves neither processes nor files behind.
"""

from zkbroker.testing.local import LocalCluster

__all__ = ["LocalCluster"]
