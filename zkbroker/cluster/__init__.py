"""A cluster as processes: one ZooKeeper and brokers, started, watched, killed and stopped.

Invariant: whoever starts a process stops it. A broker that was started here also stops by itself
when the starting process is gone, so nothing is ever left behind.
"""

from zkbroker.cluster.broker import Broker
from zkbroker.cluster.process import BrokerProcess
from zkbroker.cluster.processes import ClusterProcesses

__all__ = ["Broker", "BrokerProcess", "ClusterProcesses"]
