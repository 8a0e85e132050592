"""The random faults of a simulated cluster, and random requests to its controller.

Invariant: no fault may lose acknowledged records. With `flush.messages=1` any number of brokers may
lose power, even all at once. Without it, the design allows the last replica in sync to lose what it
has not written back, so only one broker at a time loses power, while all others are healthy.
"""

import json
from typing import TYPE_CHECKING

from tests.support.simulated_logs import DIRECTORIES
from zkbroker.registry import paths, topics

if TYPE_CHECKING:
    from tests.support.simulated_cluster import SimCluster
    from tests.support.simulated_node import SimNode

SESSION_TIMEOUT_S = 3.0
FAULTS = {
    "kill": 4.0,
    "power": 2.0,
    "freeze": 4.0,
    "cut network": 4.0,
    "cut ZooKeeper": 3.0,
    "depose controller": 1.5,
    "stop": 2.0,
    "elect preferred": 2.0,
    "power of all": 0.5,
    "fail disk": 1.5,
    "reassign": 2.0,
    "create or delete topic": 2.0,
    "delete records": 1.0,
}
PERMANENT = "t"
RECREATED = "d"
"""The topic that is created and deleted many times."""


class Faults:
    """Chooses and applies the faults of a cluster."""

    def __init__(self, cluster: "SimCluster") -> None:
        self._cluster = cluster
        self._random = cluster.random
        self.quiet_from_s = 0.0
        """The time at which the last temporary fault ends."""
        self.exclusive_until_s = 0.0
        """The time until which no other fault is allowed."""
        self._weights = {
            name: weight * self._random.choice((0, 1, 1, 3)) for name, weight in FAULTS.items()
        }
        if not cluster.flushes:
            self._weights["power of all"] = 0.0
        if cluster.real:
            self._weights["fail disk"] = 0.0
        if len(cluster.nodes) < 4:
            # Three brokers allow only fewer replicas or another order.
            self._weights["reassign"] /= 2

    @property
    def exclusive(self) -> bool:
        """Whether one fault allows no other at present."""
        return self._cluster.clock.now < self.exclusive_until_s

    def extend(self, seconds: float) -> None:
        """Note that a fault ends in some seconds."""
        self.quiet_from_s = max(self.quiet_from_s, self._cluster.clock.now + seconds)

    def next(self) -> None:
        """Apply one random fault or request, if any is allowed now."""
        random, cluster = self._random, self._cluster
        if self.exclusive:
            return
        action = random.choices(list(self._weights), list(self._weights.values()))[0]
        live = cluster.live()
        if not live:
            return
        # Faults of leaders find the most bugs.
        leading = {state["leader"] for state in cluster.checker.stored_states.values()}
        leaders = [each for each in live if each.id in leading]
        node = random.choice(leaders if leaders and random.random() < 0.5 else live)
        seconds = random.choice((random.uniform(0.1, 1.5), random.uniform(0.1, 9.0)))
        match action:
            case "kill":
                self.kill(node, seconds)
            case "power" if self._may_lose_power(node):
                self.kill(node, seconds, power=True)
                if not cluster.flushes:
                    self._exclude_others(seconds)
            case "power of all":
                for each in live:
                    self.kill(each, random.uniform(0.1, 3.0), power=True)
            case "freeze":
                self.freeze(node, seconds)
            case "cut network" if len(live) > 1:
                one, other = random.sample(sorted(cluster.nodes), 2)
                self.cut(one, other, seconds)
            case "cut ZooKeeper":
                self.cut_zookeeper(node, seconds)
            case "depose controller":
                self.depose()
            case "stop":
                cluster.checker.record_event(f"{node.id} begins its controlled shutdown")
                self.extend(4.0)
                node.stop()
            case "elect preferred":
                self.elect_preferred()
            case "fail disk" if node.disk.broken is None:
                self._fail_disk(node, seconds)
            case "reassign" if paths.REASSIGN_PARTITIONS not in cluster.server.nodes:
                self._reassign()
            case "create or delete topic":
                self.create_or_delete_topic()
            case "delete records":
                node.delete_records(random.choice(cluster.keys))

    # -- faults

    def _may_lose_power(self, node: "SimNode") -> bool:
        return self._cluster.flushes or self._others_healthy(node)

    def _others_healthy(self, node: "SimNode") -> bool:
        """Return whether all faults are over, and every partition has another replica in sync."""
        cluster = self._cluster
        return (
            cluster.clock.now > self.quiet_from_s + SESSION_TIMEOUT_S
            and not node.controller.active
            and len(cluster.live()) == len(cluster.nodes)
            and all(
                set(state["isr"]) - {node.id} for state in cluster.checker.stored_states.values()
            )
            and len(cluster.checker.stored_states) == len(cluster.keys)
        )

    def _exclude_others(self, seconds: float) -> None:
        self.exclusive_until_s = self._cluster.clock.now + seconds + SESSION_TIMEOUT_S + 4.0

    def kill(self, node: "SimNode", down_s: float, *, power: bool = False) -> None:
        """Kill a process, or cut the power of its machine, and start it again after `down_s`."""
        cluster = self._cluster
        if not node.alive:
            return
        cluster.checker.record_event(
            f"{'power of' if power else 'kill'} {node.id} for {down_s:.1f}"
        )
        # ZooKeeper keeps its session for that long.
        self.extend(max(down_s, SESSION_TIMEOUT_S))
        node.session.kill()
        cluster.network.died(node.process, silently=power)
        node.ended(power=power)
        cluster.clock.at(cluster.clock.now + down_s, None, lambda: cluster.restart(node))

    def freeze(self, node: "SimNode", seconds: float) -> None:
        """Pause a process."""
        cluster = self._cluster
        if node.process.frozen or not node.alive:
            return
        cluster.checker.record_event(f"freeze {node.id} for {seconds:.1f}")
        self.extend(seconds)
        node.session.freeze(seconds)

    def cut(self, one: int, other: int, seconds: float) -> None:
        """Cut the network between two brokers."""
        self._cluster.checker.record_event(f"cut {one} {other} for {seconds:.1f}")
        self.extend(seconds)
        self._cluster.network.cut(one, other, seconds)

    def cut_zookeeper(self, node: "SimNode", seconds: float) -> None:
        """Cut the network between a broker and ZooKeeper."""
        self._cluster.checker.record_event(f"no ZooKeeper for {node.id} for {seconds:.1f}")
        self.extend(seconds)
        node.session.break_link(seconds)

    def depose(self) -> None:
        """Delete the controller's node."""
        if paths.CONTROLLER in self._cluster.server.nodes:
            self._cluster.checker.record_event("controller deposed")
            self._cluster.server.delete(paths.CONTROLLER)

    def _fail_disk(self, node: "SimNode", seconds: float) -> None:
        """Let a directory fail; the broker restarts with the repaired or with an empty one."""
        cluster, random = self._cluster, self._random
        emptied = random.random() < 0.4
        directory = random.randrange(DIRECTORIES)
        cluster.checker.record_event(f"disk {directory} of {node.id} fails, emptied={emptied}")
        node.fail_disk(directory)
        if not emptied and random.random() < 0.5:
            return  # repaired after all other faults
        down_s = random.uniform(0.1, 2.0)
        self.extend(seconds + max(down_s, SESSION_TIMEOUT_S))
        clock = cluster.clock

        def repair() -> None:
            self.repair_disk(node.id, down_s, emptied=emptied)
            if emptied:
                restored_s = down_s + random.uniform(2.0, 8.0)
                self.extend(restored_s + SESSION_TIMEOUT_S)
                clock.at(clock.now + restored_s, None, lambda: self.restore_disk(node.id))

        clock.at(clock.now + seconds, None, repair)

    def repair_disk(self, broker: int, down_s: float, *, emptied: bool = False) -> None:
        """Repair the broken directory, or replace it by an empty one, while its broker is down."""
        node = self._cluster.nodes[broker]
        self._cluster.checker.record_event(f"disk of {broker} is repaired, emptied={emptied}")
        self.kill(node, down_s)
        node.disk.repair(emptied=emptied)

    def restore_disk(self, broker: int) -> None:
        """Restore the lost logs that the empty directory has not replaced."""
        cluster = self._cluster
        node = cluster.nodes[broker]
        if node.disk.lost or node.disk.new:
            cluster.checker.record_event(f"the lost disk of {broker} is restored")
            self.kill(node, 0.5)
            # An operator would not restore topics that are being deleted.
            node.disk.restore(except_topics=cluster.server.names[paths.DELETE_TOPICS])

    # -- requests to the controller

    def elect_preferred(self) -> None:
        """Request the preferred leaders of all partitions."""
        cluster = self._cluster
        if paths.PREFERRED_REPLICA_ELECTION in cluster.server.nodes:
            return
        cluster.checker.record_event("preferred election")
        wanted = [{"topic": key.topic, "partition": key.partition} for key in cluster.keys]
        cluster.server.create(
            paths.PREFERRED_REPLICA_ELECTION,
            json.dumps({"version": 1, "partitions": wanted}).encode(),
        )

    def _reassign(self) -> None:
        cluster, random = self._cluster, self._random
        moved = []
        for number in cluster.assignment(PERMANENT):
            replicas = random.sample(sorted(cluster.nodes), random.choice((2, 3, 3, 3)))
            moved.append({"topic": PERMANENT, "partition": number, "replicas": replicas})
        moved = random.sample(moved, random.randint(1, len(moved)))
        cluster.checker.record_event(f"reassign {moved}")
        self.extend(4.0)
        cluster.server.create(
            paths.REASSIGN_PARTITIONS, json.dumps({"version": 1, "partitions": moved}).encode()
        )

    def create_or_delete_topic(self) -> None:
        """Create the topic that comes and goes, or request its deletion if it exists."""
        cluster, random = self._cluster, self._random
        self.extend(2.0)
        if cluster.assignment(RECREATED):
            if paths.delete_topic(RECREATED) not in cluster.server.nodes:
                cluster.checker.record_event(f"delete {RECREATED}")
                cluster.server.create(paths.delete_topic(RECREATED))
            return
        cluster.checker.record_event(f"create {RECREATED}")
        replicas = {
            number: random.sample(sorted(cluster.nodes), 3)
            for number in range(random.choice((1, 2)))
        }
        if paths.topic_config(RECREATED) not in cluster.server.nodes:
            cluster.server.create(paths.topic_config(RECREATED), topics.encode_config({}))
        cluster.server.create(paths.topic(RECREATED), topics.encode_assignment(replicas))
