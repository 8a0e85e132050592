"""The controller: decides the leader of every partition, and sends it to the brokers.

Decisions (`leader_rules`, `context`) are apart from effects: writes to ZooKeeper go through
`registry.partition_states`, requests to brokers through `channel`. Time, tasks and connections are
parameters, so that a simulation can drive all of it.
"""

from zkbroker.controller.controller import Controller
from zkbroker.controller.metrics import ControllerMetrics

__all__ = ["Controller", "ControllerMetrics"]
