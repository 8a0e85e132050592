"""A cluster of brokers on a virtual clock: the seed decides one whole schedule of events.

    start --> disturbed: faults, requests to the controller, aims; producers and consumers go on
          --> healed --> settled, or the schedule has failed

`simulated_faults` chooses random faults, `simulated_aims` builds situations that are too rare among
random faults, and `simulated_checks` checks the safety rules.
"""

import copy
import random as random_module
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from tests.support.simulated_aims import AIMS
from tests.support.simulated_brokers import WatchedZooKeeper
from tests.support.simulated_checks import SafetyChecker
from tests.support.simulated_faults import PERMANENT, SESSION_TIMEOUT_S, Faults
from tests.support.simulated_logs import NEVER, Disk
from tests.support.simulated_network import SimNetwork
from tests.support.simulated_node import SimNode, info
from tests.support.simulated_real_logs import RealDisk
from tests.support.simulated_time import Clock
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.log import LogConfig
from zkbroker.log import TopicPartition
from zkbroker.registry import paths, topics
from zkbroker.registry.state_form import StateForm

DISTURBED_S = 16.0
REST_S = 90.0
CHECK_S = 0.25
AIMED = 0.3
"""The share of schedules with an aim."""


class SimCluster:
    """One schedule.

    Args:
        seed: decides all random choices.
        unclean: whether replicas that are not in sync may be elected.
        loss: acknowledged records may be lost, as with `unclean`; replicas must agree at the end.
        aim: a name of `AIMS`, or "" for none; None lets the seed choose.
        directory: for real logs; None for logs in memory.
    """

    def __init__(
        self,
        seed: int,
        *,
        unclean: bool = False,
        loss: bool = False,
        aim: str | None = None,
        directory: Path | None = None,
    ) -> None:
        random = self.random = random_module.Random(seed)
        self.clock = Clock()
        self.form = random.choice(list(StateForm))
        self.flush_messages = random.choice((1, NEVER, NEVER))
        aims = [name for name, each in AIMS.items() if each.by_chance]
        chosen = random.choice(aims) if random.random() < AIMED else ""
        self.aim = chosen if aim is None else aim
        if self.aim:
            self.flush_messages = AIMS[self.aim].flush_messages or self.flush_messages
        brokers = random.choice((3, 3, 3, 4))
        if self.aim:
            brokers = AIMS[self.aim].brokers or brokers
        self.min_insync_replicas = 2
        ids = list(range(brokers))
        self.nodes: dict[int, SimNode] = {}
        self.checker = SafetyChecker(
            lambda: self.clock.now,
            self.nodes,
            lambda key: self._assignments[key.topic][1].get(key.partition, ()),
            persistent=self.form is StateForm.PERSISTENT,
            loss=loss,
            all_may_lose_power=self.flushes,
        )
        self.infos = {number: info(number) for number in ids}
        self._config = BrokerConfig(
            zookeeper_connect="simulated:1",
            broker_id=0,
            partition_state_znodes=str(self.form),
            auto_leader_rebalance=False,
            log=LogConfig(unclean_leader_election=unclean),
        )
        self._values = 0
        self._assignments: dict[str, tuple[bytes, dict[int, tuple[int, ...]]]] = {}
        self.server = WatchedZooKeeper(self.checker, self.clock, random, SESSION_TIMEOUT_S)
        self.server.create_cluster()
        replicas = {
            number: [ids[(number + at) % brokers] for at in range(3)]
            for number in range(random.choice((1, 1, 2)))
        }
        self.server.create(paths.topic_config(PERMANENT), topics.encode_config({}))
        self.server.create(paths.topic(PERMANENT), topics.encode_assignment(replicas))
        self.network = SimNetwork(self.clock, random)
        self.disks: dict[int, Disk | RealDisk] = {
            number: Disk()
            if directory is None
            else RealDisk(directory / f"{number}", seed * 100 + number)
            for number in ids
        }
        self.real = directory is not None
        for number in ids:
            self.start(number)
        self.faults = Faults(self)
        self.disturbing = True
        self.settle_s = 0.0
        self.clock.at(CHECK_S, None, self._check_often)

    @property
    def acks(self) -> int:
        return self.checker.acks

    @property
    def flushes(self) -> bool:
        """Whether acknowledged records are on stable storage."""
        return self.flush_messages == 1

    def config(self, broker_id: int) -> BrokerConfig:
        return replace_id(self._config, broker_id)

    def assignment(self, topic: str) -> dict[int, tuple[int, ...]]:
        """Return partition -> assigned replicas of a topic; empty if it does not exist."""
        node = self.server.nodes.get(paths.topic(topic))
        if node is None:
            return {}
        known = self._assignments.get(topic)
        if known is None or known[0] is not node.data:
            known = (node.data, dict(topics.decode_assignment(topic, node.data)))
            self._assignments[topic] = known
        return known[1]

    @property
    def keys(self) -> list[TopicPartition]:
        """All partitions that exist."""
        return [
            TopicPartition(topic, number)
            for topic in sorted(self.server.names[paths.TOPICS])
            for number in self.assignment(topic)
        ]

    def live(self) -> list[SimNode]:
        return [each for each in self.nodes.values() if each.alive and not each.stopping]

    def leader_of(self, key: TopicPartition) -> SimNode | None:
        """Return the elected leader; None if it has not begun to lead."""
        state = self.checker.stored_states.get(key)
        node = None if state is None else self.nodes.get(state["leader"])
        if node is None or not node.alive or node.process.frozen:
            return None
        led = node.partition(key)
        current = led is not None and led.leading and led.leader_epoch == state["leader_epoch"]
        return node if current else None

    def _check_often(self) -> None:
        self.checker.check_replicas_agree()
        self.clock.at(self.clock.now + CHECK_S, None, self._check_often)

    def unsettled(self) -> str | None:
        """Return what is still to be done before the cluster is at rest; None if nothing is.

        Deletions and reassignments may wait for a broken disk; everything else may not.
        """
        active = [node.id for node in self.nodes.values() if node.controller.active]
        if len(active) != 1:
            return f"controllers: {active}"
        deleting = self.server.names[paths.DELETE_TOPICS]
        if all(disk.broken is None for disk in self.disks.values()):
            if deleting:
                return f"not deleted: {deleting}"
            for path in (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION):
                if path in self.server.nodes:
                    return f"{path} is not carried out"
        for key in self.keys:
            reason = None if key.topic in deleting else self._partition_unsettled(key)
            if reason is not None:
                return f"{key}: {reason}"
        return None

    def _partition_unsettled(self, key: TopicPartition) -> str | None:
        state = self.checker.stored_states.get(key)
        if state is None:
            return "no stored state"
        replicas = [
            number
            for number in self.assignment(key.topic)[key.partition]
            if not self.nodes[number].disk.unusable(key)
        ]
        leader = self.nodes.get(state["leader"])
        if leader is None or set(state["isr"]) != set(replicas):
            return f"{state} of {replicas}"
        if len(state["isr"]) != len(set(state["isr"])):
            return f"{state}"
        led = leader.partition(key)
        if led is None or not led.leading or led.leader_epoch != state["leader_epoch"]:
            return f"{led} at {leader.id}, stored is {state}"
        if led.high_watermark != led.log_end_offset:
            return f"high watermark {led.high_watermark} of {led.log_end_offset}"
        logs = [self.nodes[number].disk.records(key) or (0, []) for number in replicas]
        # A former leader may have deleted records that the other replicas still have.
        start = max(first for first, _ in logs)
        if any(
            records[start - first :] != logs[0][1][start - logs[0][0] :] for first, records in logs
        ):
            return f"the logs of {replicas} differ"
        return None

    # -- events

    def start(self, number: int) -> None:
        node = self.nodes[number] = SimNode(self, number, self.disks[number])
        self.network.peers[number] = node

    def restart(self, node: SimNode) -> None:
        """Start a broker again, if `node` is its latest process and has ended."""
        if self.nodes[node.id] is node and not node.alive:
            self.checker.record_event(f"start {node.id}")
            self.start(node.id)

    def stopped(self, node: SimNode) -> None:
        """End a broker's process after its controlled shutdown, and start it again later."""
        self.checker.record_event(f"{node.id} stops")
        node.close_logs()
        node.session.close()
        node.process.dead = True
        self.network.died(node.process, silently=False)
        seconds = self.random.uniform(0.2, 5.0)
        self.faults.extend(seconds)
        self.clock.at(self.clock.now + seconds, None, lambda: self.restart(node))

    def _repeat(self, mean_s: float, act: Callable[[], object]) -> None:
        def act_and_repeat() -> None:
            if self.disturbing:
                act()
                self._repeat(mean_s, act)

        self.clock.at(self.clock.now + self.random.expovariate(1 / mean_s), None, act_and_repeat)

    def _produce(self) -> None:
        random = self.random
        key = random.choice(self.keys)
        leaders = [
            node
            for node in self.live()
            if (found := node.partition(key)) is not None and found.leading
        ]
        if leaders:
            acks = random.choice((-1, -1, -1, 1))
            self.produce(random.choice(leaders), key, random.choice((1, 1, 2, 3)), acks)

    def produce(self, node: SimNode, key: TopicPartition, count: int, acks: int) -> None:
        """Have a broker append new values; it reports the outcome to the checker."""
        values = list(range(self._values, self._values + count))
        self._values += count
        self.clock.at(
            self.clock.now,
            node.process,
            lambda: self.clock.spawn(node.process, node.produce, key, values, acks),
        )

    def _consume(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if node.alive and not node.process.frozen:
            key = self.random.choice(self.keys)
            offset = self.random.choice((0, max(0, self.checker.consumed_count(key) - 3)))
            node.consume(key, offset)

    def _write_back(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        if node.alive:
            node.write_back()

    # -- the schedule

    def run(self) -> list[str]:
        """Run the schedule, and return every broken rule."""
        try:
            return self._run()
        finally:
            self.clock.close()
            for node in self.nodes.values():
                node.ended()

    def _run(self) -> list[str]:
        random, clock, checker = self.random, self.clock, self.checker
        while self.unsettled() is not None and clock.now < SESSION_TIMEOUT_S:
            clock.run(clock.now + CHECK_S)
        disturbed_until_s = clock.now + random.uniform(4.0, DISTURBED_S)
        pace = random.choice((0.25, 0.6, 1.5))
        self._repeat(random.choice((0.05, 0.2, 0.6)), self._produce)
        self._repeat(0.4, self._consume)
        self._repeat(1.0, self._write_back)
        if self.aim:
            self._follow_aim()
            # Few other faults may interfere with an aim.
            pace, disturbed_until_s = 12.0, clock.now + AIMS[self.aim].seconds
        while clock.now < disturbed_until_s and not checker.problems:
            clock.run(clock.now + random.expovariate(1 / pace))
            self.faults.next()
        while clock.now < self.faults.quiet_from_s and not checker.problems:
            # A broker may finish its controlled shutdown only now, and restarts after a while.
            clock.run(self.faults.quiet_from_s)
        if checker.problems:
            return checker.problems
        self.disturbing = False
        self.network.heal()
        checker.record_event("healed")
        broken = [number for number, disk in self.disks.items() if disk.broken is not None]
        if broken:
            self._settle(without=broken)
        for number in broken:
            self.faults.repair_disk(number, 0.5)
        self._settle()
        if not checker.problems:
            checker.check_replicas_agree()
            checker.check_acknowledged()
        return checker.problems

    def _led_without(self, broken: Collection[int]) -> bool:
        """Return whether every partition has a usable replica in sync."""
        return len(self.checker.stored_states) == len(self.keys) and all(
            any(
                broker not in broken or not self.disks[broker].unusable(TopicPartition(*key))
                for broker in state["isr"]
            )
            for key, state in self.checker.stored_states.items()
        )

    def _settle(self, *, without: Collection[int] = ()) -> None:
        """Run until the cluster is settled.

        Args:
            without: brokers with a broken disk. A partition cannot settle while they are its only
                replicas in sync, which may also become true during the run.
        """
        clock, checker = self.clock, self.checker
        begun = clock.now
        while clock.now < begun + REST_S and not checker.problems:
            if without and not self._led_without(without):
                return
            clock.run(clock.now + 0.5)
            if self.unsettled() is None:
                break
        else:
            if not checker.problems:
                checker.problem(
                    f"not settled {REST_S:g} s after the last repair: {self.unsettled()}"
                )
        self.settle_s = max(self.settle_s, clock.now - begun)

    def _follow_aim(self) -> None:
        steps = AIMS[self.aim].steps(self)

        def next_step() -> None:
            wait_s: Any = next(steps, None) if self.disturbing else None
            if wait_s is not None:
                self.clock.at(self.clock.now + wait_s, None, next_step)

        next_step()


def replace_id(config: BrokerConfig, broker_id: int) -> BrokerConfig:
    """Return the same settings for another broker; parsing them again is slow."""
    other = copy.copy(config)
    object.__setattr__(other, "broker_id", broker_id)
    return other
