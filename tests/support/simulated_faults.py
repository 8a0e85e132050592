"""What befalls a simulated cluster: the faults of a schedule, and what is asked of its controller.

Invariant: nothing here may lose what was acknowledged. Power goes, and disks are replaced by empty
ones, in two kinds of schedules: with `flush.messages=1` power may go anywhere, everywhere at once
too; without, what the last replica in sync has not written back is lost with it, as the design has
it, so there it goes only where all others are well, one broker at a time.
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
    "cut": 4.0,
    "zookeeper": 3.0,
    "depose": 1.5,
    "leave": 2.0,
    "preferred": 2.0,
    "blackout": 0.5,
    "disk": 1.5,
    "reassign": 2.0,
    "topic": 2.0,
    "trim": 1.0,
}
MOVED = "t"
PASSING = "d"
"""The topic that is made and deleted again and again."""


class Faults:
    """Chooses what happens next.

    Args:
        cluster: what it happens to.
    """

    def __init__(self, cluster: "SimCluster") -> None:
        self._cluster = cluster
        self._random = cluster.random
        self.quiet_from_s = 0.0
        """When the last fault that ends by itself is over."""
        self.alone_until_s = 0.0
        """Until then no other fault may come."""
        self._weights = {
            name: weight * self._random.choice((0, 1, 1, 3)) for name, weight in FAULTS.items()
        }
        if not cluster.flushes:
            self._weights["blackout"] = 0.0
        if cluster.real:
            self._weights["disk"] = 0.0
        if len(cluster.nodes) < 4:
            # There is nowhere to go for most, but fewer replicas and another order.
            self._weights["reassign"] /= 2

    @property
    def alone(self) -> bool:
        return self._cluster.clock.now < self.alone_until_s

    def lasts(self, seconds: float) -> None:
        self.quiet_from_s = max(self.quiet_from_s, self._cluster.clock.now + seconds)

    def next(self) -> None:
        """Have one thing happen, if it may now."""
        random, cluster = self._random, self._cluster
        if self.alone:
            return
        action = random.choices(list(self._weights), list(self._weights.values()))[0]
        live = cluster.live()
        if not live:
            return
        # What befalls leaders tells most.
        leading = {state["leader"] for state in cluster.truth.decided.values()}
        leaders = [each for each in live if each.id in leading]
        node = random.choice(leaders if leaders and random.random() < 0.5 else live)
        seconds = random.choice((random.uniform(0.1, 1.5), random.uniform(0.1, 9.0)))
        match action:
            case "kill":
                self.kill(node, seconds)
            case "power" if self._may_forget(node):
                self.kill(node, seconds, power=True)
                if not cluster.flushes:
                    self._alone(seconds)
            case "blackout":
                for each in live:
                    self.kill(each, random.uniform(0.1, 3.0), power=True)
            case "freeze":
                self.freeze(node, seconds)
            case "cut" if len(live) > 1:
                one, other = random.sample(sorted(cluster.nodes), 2)
                self.cut(one, other, seconds)
            case "zookeeper":
                self.part_from_zookeeper(node, seconds)
            case "depose":
                self.depose()
            case "leave":
                cluster.truth.tell(f"{node.id} leaves")
                self.lasts(4.0)
                node.leave()
            case "preferred":
                self.elect_preferred()
            case "disk" if node.disk.broken is None:
                self._fail_disk(node, seconds)
            case "reassign" if paths.REASSIGN_PARTITIONS not in cluster.server.nodes:
                self._reassign()
            case "topic":
                self.make_or_delete_topic()
            case "trim":
                node.trim(random.choice(cluster.keys))

    # -- faults

    def _may_forget(self, node: "SimNode") -> bool:
        return self._cluster.flushes or self._others_well(node)

    def _others_well(self, node: "SimNode") -> bool:
        """Whether all is well, and every partition has another replica in sync."""
        cluster = self._cluster
        return (
            cluster.clock.now > self.quiet_from_s + SESSION_TIMEOUT_S
            and not node.controller.active
            and len(cluster.live()) == len(cluster.nodes)
            and all(set(state["isr"]) - {node.id} for state in cluster.truth.decided.values())
            and len(cluster.truth.decided) == len(cluster.keys)
        )

    def _alone(self, seconds: float) -> None:
        self.alone_until_s = self._cluster.clock.now + seconds + SESSION_TIMEOUT_S + 4.0

    def kill(self, node: "SimNode", down_s: float, *, power: bool = False) -> None:
        """End a process, or the power of its machine, for some seconds."""
        cluster = self._cluster
        if not node.alive:
            return
        cluster.truth.tell(f"{'power of' if power else 'kill'} {node.id} for {down_s:.1f}")
        # Until then the server believes that it lives.
        self.lasts(max(down_s, SESSION_TIMEOUT_S))
        node.process.dead = True
        node.session.hearing_changed()
        cluster.network.died(node.process, silently=power)
        node.ended(power=power)
        cluster.clock.at(cluster.clock.now + down_s, None, lambda: cluster.restart(node))

    def freeze(self, node: "SimNode", seconds: float) -> None:
        """Have a process stand still."""
        cluster = self._cluster
        if node.process.frozen or not node.alive:
            return
        cluster.truth.tell(f"freeze {node.id} for {seconds:.1f}")
        self.lasts(seconds)
        cluster.clock.freeze(node.process)
        node.session.hearing_changed()
        cluster.clock.at(cluster.clock.now + seconds, None, lambda: self._thaw(node))

    def _thaw(self, node: "SimNode") -> None:
        if node.alive and node.process.frozen:
            node.process.frozen = False
            node.session.thawed()
            self._cluster.clock.resume(node.process)

    def cut(self, one: int, other: int, seconds: float) -> None:
        """Let nothing through between two brokers."""
        self._cluster.truth.tell(f"cut {one} {other} for {seconds:.1f}")
        self.lasts(seconds)
        self._cluster.network.cut(one, other, seconds)

    def part_from_zookeeper(self, node: "SimNode", seconds: float) -> None:
        """Let nothing through between a broker and ZooKeeper."""
        self._cluster.truth.tell(f"no ZooKeeper for {node.id} for {seconds:.1f}")
        self.lasts(seconds)
        node.session.break_link(seconds)

    def depose(self) -> None:
        """Take the controller's node away."""
        if paths.CONTROLLER in self._cluster.server.nodes:
            self._cluster.truth.tell("controller deposed")
            self._cluster.server.delete(paths.CONTROLLER)

    def _fail_disk(self, node: "SimNode", seconds: float) -> None:
        """Have a directory fail; the broker is started again with it, or with an empty one."""
        cluster, random = self._cluster, self._random
        emptied = random.random() < 0.4
        directory = random.randrange(DIRECTORIES)
        cluster.truth.tell(f"disk {directory} of {node.id} fails, emptied={emptied}")
        node.fail_disk(directory)
        if not emptied and random.random() < 0.5:
            return  # until all else is well
        down_s = random.uniform(0.1, 2.0)
        self.lasts(seconds + max(down_s, SESSION_TIMEOUT_S))
        clock = cluster.clock

        def repair() -> None:
            self.repair_disk(node.id, down_s, emptied=emptied)
            if emptied:
                later_s = down_s + random.uniform(2.0, 8.0)
                self.lasts(later_s + SESSION_TIMEOUT_S)
                clock.at(clock.now + later_s, None, lambda: self.find_disk(node.id))

        clock.at(clock.now + seconds, None, repair)

    def repair_disk(self, broker: int, down_s: float, *, emptied: bool = False) -> None:
        """Bring a directory back; its broker is stopped for that."""
        node = self._cluster.nodes[broker]
        self._cluster.truth.tell(f"disk of {broker} is back, emptied={emptied}")
        self.kill(node, down_s)
        node.disk.repair(emptied=emptied)

    def find_disk(self, broker: int) -> None:
        """Bring the logs of a lost directory back, of which the new one has nothing."""
        cluster = self._cluster
        node = cluster.nodes[broker]
        if node.disk.lost or node.disk.new:
            cluster.truth.tell(f"the lost disk of {broker} is found")
            self.kill(node, 0.5)
            # Who looks after it knows better than to bring back what was deleted meanwhile.
            node.disk.find(but=cluster.server.names[paths.DELETE_TOPICS])

    # -- what is asked for

    def elect_preferred(self) -> None:
        """Ask for preferred leaders of everything."""
        cluster = self._cluster
        if paths.PREFERRED_REPLICA_ELECTION in cluster.server.nodes:
            return
        cluster.truth.tell("preferred election")
        wanted = [{"topic": key.topic, "partition": key.partition} for key in cluster.keys]
        cluster.server.create(
            paths.PREFERRED_REPLICA_ELECTION,
            json.dumps({"version": 1, "partitions": wanted}).encode(),
        )

    def _reassign(self) -> None:
        cluster, random = self._cluster, self._random
        moved = []
        for number in cluster.assignment(MOVED):
            replicas = random.sample(sorted(cluster.nodes), random.choice((2, 3, 3, 3)))
            moved.append({"topic": MOVED, "partition": number, "replicas": replicas})
        moved = random.sample(moved, random.randint(1, len(moved)))
        cluster.truth.tell(f"reassign {moved}")
        self.lasts(4.0)
        cluster.server.create(
            paths.REASSIGN_PARTITIONS, json.dumps({"version": 1, "partitions": moved}).encode()
        )

    def make_or_delete_topic(self) -> None:
        """Ask for the passing topic, or for its deletion."""
        cluster, random = self._cluster, self._random
        self.lasts(2.0)
        if cluster.assignment(PASSING):
            if paths.delete_topic(PASSING) not in cluster.server.nodes:
                cluster.truth.tell(f"delete {PASSING}")
                cluster.server.create(paths.delete_topic(PASSING))
            return
        cluster.truth.tell(f"create {PASSING}")
        replicas = {
            number: random.sample(sorted(cluster.nodes), 3)
            for number in range(random.choice((1, 2)))
        }
        if paths.topic_config(PASSING) not in cluster.server.nodes:
            cluster.server.create(paths.topic_config(PASSING), topics.encode_config({}))
        cluster.server.create(paths.topic(PASSING), topics.encode_assignment(replicas))
