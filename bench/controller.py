"""Cost of a controller's work as partitions grow: of a new controller, and of one that stays.

A controller's term over a real ZooKeeper, without brokers: its requests are encoded and dropped.
One of its brokers is dead. `takes over` is a controller that was elected because the one before it
died, and knew the partitions which that one led; `stays` is one that sees another broker die.
Milliseconds until every partition's leader was sent its decision, until all is sent, and CPU
milliseconds of this process.

    python -m bench.growth --only controller
"""

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from bench.figures import Growth
from zkbroker.controller.context import TermSettings
from zkbroker.controller.partitions import ElectionCounts
from zkbroker.controller.term import BROKERS, ControllerTerm
from zkbroker.protocol import ApiKey, RequestHeader, encode_request
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo, prepare_tree
from zkbroker.registry.partition_states import LeaderAndIsr, PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.registry.topics import create_topic
from zkbroker.replica.fencing import states_in
from zkbroker.runtime import get_runtime
from zkbroker.zookeeper import ZkSession
from zkbroker.zookeeper.watching import Mark

REPLICAS = 3
TOPIC = "many"


@dataclass
class Encoded:
    """Replaces the channels.

    Attributes:
        led_s: when the last leader's decision was sent.
        orphans: partitions of the dead broker that no other was asked to lead yet.
    """

    led_s: float = 0.0
    sent_bytes: int = 0
    orphans: set[tuple[str, int]] = field(default_factory=set)

    def open(self, broker: BrokerInfo) -> None: ...

    def drop(self, broker: int) -> None: ...

    def send(self, broker: int, request: Any, version: int, answered: object) -> None:
        parts = encode_request(RequestHeader(request.api_key, version, 1, "controller"), request)
        self.sent_bytes += sum(len(bytes(each)) for each in parts)
        if request.api_key == ApiKey.LEADER_AND_ISR:
            led = {
                (topic, state.partition)
                for topic, state in states_in(request)
                if state.leader == broker
            }
            if led & self.orphans:
                self.orphans -= led
                self.led_s = time.perf_counter()


@dataclass
class Cost:
    """Milliseconds: until all are led, until all is sent, and of CPU."""

    led: float
    sent: float
    cpu: float


class Tree:
    """A cluster's nodes with live brokers that do nothing.

    Args:
        address: of ZooKeeper, with a chroot of its own.
        brokers: how many.
        partitions: of one topic, each led by its first replica.
    """

    def __init__(self, stack: ExitStack, address: str, brokers: int, partitions: int) -> None:
        self.session = stack.enter_context(ZkSession(address, runtime=get_runtime("gevent")))
        prepare_tree(self.session)
        if self.session.exists(paths.CONTROLLER_EPOCH) is None:
            self.session.create(paths.CONTROLLER_EPOCH, b"1")
        self.alive: dict[int, ZkSession] = {}
        for broker in range(brokers):
            # Before the first decision, since a broker that registers later counts as restarted.
            own = self.alive[broker] = stack.enter_context(ZkSession(address))
            info = BrokerInfo(broker, "127.0.0.1", 9000 + broker)
            own.create(paths.broker(broker), info.to_json(), ephemeral=True)
        assigned = {
            number: [(number + at) % brokers for at in range(REPLICAS)]
            for number in range(partitions)
        }
        create_topic(self.session, TOPIC, assigned)
        states = PartitionStates(self.session, StateForm.EPHEMERAL)
        first = {
            (TOPIC, number): LeaderAndIsr(replicas[0], 0, tuple(replicas), 1)
            for number, replicas in assigned.items()
        }
        self.led = first
        stored = states.write(first, self.session.get(paths.CONTROLLER_EPOCH)[1].version)
        for broker, own in self.alive.items():
            led = {key: each for key, each in stored.items() if each.leader == broker}
            PartitionStates(own, StateForm.EPHEMERAL).register_leader(led)

    def kill(self) -> set[tuple[str, int]]:
        """End one broker's session; return its partitions."""
        broker, session = self.alive.popitem()
        session.close()
        return {key for key, each in self.led.items() if each.leader == broker}

    def term(self, channels: Encoded) -> ControllerTerm:
        return ControllerTerm(
            TermSettings(0),
            self.session,
            PartitionStates(self.session, StateForm.EPHEMERAL),
            channels,  # type: ignore[arg-type] # the part of the channels that it uses
            lambda name: Mark(lambda _: None, name),
            2,
            self.session.get(paths.CONTROLLER_EPOCH)[1].version,
            ElectionCounts(),
            last_led_by_others=lambda live: [
                key for key, each in self.led.items() if each.leader not in live
            ],
        )


def measure(work: Any, channels: Encoded) -> Cost:
    started, cpu_s = time.perf_counter(), time.process_time()
    work()
    ended, used_s = time.perf_counter(), time.process_time() - cpu_s
    return Cost((channels.led_s - started) * 1e3, (ended - started) * 1e3, used_s * 1e3)


def one_round(address: str, brokers: int, partitions: int) -> dict[str, Cost]:
    costs: dict[str, Cost] = {}
    with ExitStack() as stack:
        tree = Tree(stack, address, brokers, partitions)
        channels = Encoded(orphans=tree.kill())
        costs["takes over"] = measure(tree.term(channels).begin, channels)
    with ExitStack() as stack:
        tree = Tree(stack, f"{address}-stays", brokers, partitions)
        channels = Encoded()
        term = tree.term(channels)
        term.begin()
        channels.orphans = tree.kill()
        costs["stays, and another broker dies"] = measure(lambda: term.work({BROKERS}), channels)
    return costs


def by_partitions(
    address: str, partitions: Sequence[int], rounds: int, brokers: int = 6
) -> list[Growth]:
    """Median costs by partitions of the cluster."""
    found: dict[tuple[str, int], list[Cost]] = {}
    for number in range(rounds):
        for count in partitions:
            costs = one_round(f"{address}/of-{count}-{number}", brokers, count)
            for what, cost in costs.items():
                found.setdefault((what, count), []).append(cost)
    return [
        Growth(
            f"a controller {what}",
            unit,
            "partitions",
            [
                (float(n), statistics.median(getattr(each, figure) for each in found[what, n]))
                for n in partitions
            ],
            "linear",
        )
        for what in ("takes over", "stays, and another broker dies")
        for figure, unit in (("led", "ms until all are led"), ("cpu", "ms of CPU"))
    ]
