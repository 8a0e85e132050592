"""Waits until a starting broker serves everything that the controller decided for it.

    assigned partitions --LeaderAndIsr--> roles --UpdateMetadata--> known to clients
                                                --registration----> known to old clients

Invariant: a broker is ready when every partition assigned to it has its role, all decisions of the
present controller are carried out, and clients of every version find the partitions that it leads.
It waits as long as there is progress: thousands of partitions take time.
"""

from dataclasses import dataclass

from zkbroker.broker.view import ClusterView
from zkbroker.replica.manager import ReplicaManager
from zkbroker.replica.state_writer import LeaderStateWriter

STILL_S = 60.0
"""How long a start waits without progress."""


@dataclass(frozen=True, eq=False)
class Readiness:
    """Whether a starting broker is ready, and the wait for it."""

    broker_id: int
    view: ClusterView
    replicas: ReplicaManager
    writer: LeaderStateWriter

    def wait(self, still_s: float = STILL_S) -> bool:
        """Wait until this broker is ready; False after `still_s` without progress."""
        decided = -1
        unsubscribe = self.replicas.on_change(self.view.notify)
        try:
            while not self.view.wait_for(self.reached, still_s):
                if len(self.replicas.partitions) == decided:
                    return False
                decided = len(self.replicas.partitions)
            return True
        finally:
            unsubscribe()

    def reached(self) -> bool:
        """Whether this broker is ready."""
        view, replicas = self.view, self.replicas
        for topic, assignment in view.topics.assignments.items():
            if topic in view.topics.deleting:
                continue
            for number, brokers in assignment.items():
                if self.broker_id not in brokers:
                    continue
                # Without a partition here the controller sends no LeaderAndIsr.
                partition = replicas.get(topic, number) if replicas.roles.caught_up else None
                if partition is None:
                    return False
                if partition.leading is not None and view.decided(topic, number) is None:
                    return False
        return self.writer.idle
