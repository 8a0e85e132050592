"""A cluster as processes: one ZooKeeper and brokers, started, watched, killed and stopped.

Invariant: the process that starts a broker stops it. A broker started here also stops by itself
    when its parent is gone, so nothing is ever left behind.
"""

from zkbroker.cluster.broker import Broker
from zkbroker.cluster.process import BrokerProcess
from zkbroker.cluster.processes import ClusterProcesses

__all__ = ["Broker", "BrokerProcess", "ClusterProcesses"]
