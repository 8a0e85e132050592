"""The controller: decides who leads every partition, and tells the brokers.

Decisions (`leader_rules`, `context`) are apart from effects: what is written to ZooKeeper goes
through `registry.partition_states`, what is sent to brokers through `channel`. Time, tasks and
connections are given from outside, so that a simulation can drive all of it.
"""

from zkbroker.controller.controller import Controller, ControllerMetrics

__all__ = ["Controller", "ControllerMetrics"]
