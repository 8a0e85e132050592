"""Real controllers on a virtual clock, over a network and a ZooKeeper that fail.

The brokers are simulated: they fence requests by controller, broker and leader epoch, and change
ISRs. `ControllerSimulation` checks everything that is stored and sent, and ends the run if a rule
of `simulated_checks` for stored states is broken, or one of these:

    - a state that a broker receives was stored before
    - an elected leader was in the ISR before the election
"""

import random as random_module
import re
from collections.abc import Callable
from typing import Any

from tests.support.simulated_checks import SafetyChecker
from tests.support.simulated_session import SimSession
from tests.support.simulated_time import Clock, Process
from tests.support.simulated_zookeeper import SimZooKeeper
from zkbroker.config.broker import BrokerConfig
from zkbroker.controller.controller import Controller
from zkbroker.errors import ErrorCode, NetworkError, ProtocolError, RegistryError
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from zkbroker.protocol.messages.leader_and_isr import PartitionError
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.partition_states import Key, LeaderAndIsr, PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.replica.fencing import states_in
from zkbroker.zookeeper import Delete, NodeExists, SessionState

SESSION_TIMEOUT_S = 6.0
REQUEST_TIMEOUT_S = 3.0
_STATE = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)(/state)?$")


class WatchedZooKeeper(SimZooKeeper):
    """Reports every stored partition state, and every deleted topic, to an observer.

    Args:
        observer: has `state_stored`, `topic_deleted` and `persistent`.
        args: those of `SimZooKeeper`.
    """

    def __init__(self, observer: Any, *args: Any) -> None:
        self.observer = observer
        super().__init__(*args)

    def transaction(self, operations: Any, owner: int) -> Any:
        before = {each.path: self.nodes.get(each.path) for each in operations}
        earlier = {path: node.data for path, node in before.items() if node is not None}
        refused = super().transaction(operations, owner)
        if refused is None:
            for each in operations:
                if isinstance(each, Delete) and each.path.startswith(f"{paths.TOPICS}/"):
                    topic = each.path.removeprefix(f"{paths.TOPICS}/")
                    if "/" not in topic:
                        self.observer.topic_deleted(topic)
                found = _STATE.match(each.path)
                if found and bool(found[3]) is self.observer.persistent and each.path in self.nodes:
                    key = (found[1], int(found[2]))
                    data = self.nodes[each.path].data
                    self.observer.state_stored(key, earlier.get(each.path), data)
        return refused


class ControllerSimulation:
    """All brokers, and the history of all stored states."""

    def __init__(self, seed: int, brokers: int, form: StateForm, **config: Any) -> None:
        self.random = random_module.Random(seed)
        self.clock = Clock()
        self.form = form
        self.config = config
        self.decisions: set[tuple[Key, int, int, tuple[int, ...]]] = set()
        self.elections = 0
        self.checker = SafetyChecker(
            lambda: self.clock.now,
            {},
            lambda key: (),
            persistent=form is StateForm.PERSISTENT,
            loss=True,
            all_may_lose_power=True,
        )
        self.checker.on_state_stored.append(self._state_stored)
        self.server = WatchedZooKeeper(self.checker, self.clock, self.random, SESSION_TIMEOUT_S)
        self.server.create_cluster()
        self.brokers = {number: SimBroker(self, number) for number in range(brokers)}

    def _state_stored(self, key: Key, last: Any, now: Any) -> None:
        assert not self.checker.problems, self.checker.problems
        epoch, leader, isr = now["leader_epoch"], now["leader"], now["isr"]
        self.decisions.add((key, epoch, leader, tuple(isr)))
        if last is not None and epoch > last["leader_epoch"]:
            self.elections += 1
            assert set(isr) <= set(last["isr"]), f"{key}: a controller grew the ISR"
            assert leader in (-1, *last["isr"]), f"{key}: {leader} was not in sync"

    def check_stored(self, broker: int, key: Key, state: Any) -> None:
        assert (key, state.leader_epoch, state.leader, tuple(state.isr)) in self.decisions, (
            f"broker {broker} received a state of {key} that was never stored: {state}"
        )

    def controllers(self) -> list[int]:
        return [
            broker.number
            for broker in self.brokers.values()
            if broker.alive and broker.controller.active
        ]

    def run(self, seconds: float, done: Callable[[], bool] | None = None) -> bool:
        return self.clock.run(self.clock.now + seconds, done)


class SimBroker:
    """A broker that follows its controller's requests; it can be killed and started again."""

    def __init__(self, simulation: ControllerSimulation, number: int) -> None:
        self.simulation = simulation
        self.number = number
        self.alive = False
        self.start()

    def start(self) -> None:
        simulation = self.simulation
        self.process = Process(f"broker {self.number}")
        self.session = SimSession(simulation.server, self.process)
        self.runtime = self.session.runtime
        self.alive = True
        self.epoch = -1
        self.controller_epoch = 0
        self.partitions: dict[Key, Any] = {}
        self.metadata: dict[Key, Any] = {}
        self.live: list[int] = []
        self.states = PartitionStates(self.session, simulation.form)
        config = BrokerConfig(
            zookeeper_connect="simulated:1",
            broker_id=self.number,
            partition_state_znodes=str(simulation.form),
            **simulation.config,
        )
        self.controller = Controller(
            config,
            self.session,
            self.states,
            self.number,
            lambda info: LossyConnection(self, info.id),
            lambda live: [key for key, each in self.metadata.items() if each.leader not in live],
        )
        self._changed = self.runtime.event()
        self.session.on_state(lambda state: self._changed.set())
        self.runtime.spawn(self._register, name="register")

    def kill(self) -> None:
        self.alive = False
        self.session.kill()

    def _register(self) -> None:
        info = BrokerInfo(self.number, "h", 1 + self.number)
        generation = None
        controller_started = False
        while True:
            try:
                if generation != self.session.generation:
                    generation = self.session.generation
                    path = paths.broker(self.number)
                    try:
                        self.session.create(path, info.to_json(), ephemeral=True)
                    except NodeExists:
                        stat = self.session.exists(path)
                        if stat is None or stat.ephemeral_owner != self.session.session_id:
                            generation = None
                            self.runtime.sleep(0.5)
                            continue
                    stat = self.session.exists(path)
                    if stat is not None:
                        self.epoch = stat.czxid
                if not controller_started:
                    self.controller.start()
                    controller_started = True
            except RegistryError:
                generation = None
                self.runtime.sleep(0.5)
                continue
            self._changed.wait()
            self._changed.clear()
            if self.session.state is not SessionState.CONNECTED:
                continue

    # -- the controller's requests

    def handle(self, request: Any) -> Any:
        if request.api_key == ApiKey.UPDATE_METADATA:
            return self._update_metadata(request)
        response = (
            LeaderAndIsrResponse
            if request.api_key == ApiKey.LEADER_AND_ISR
            else StopReplicaResponse
        )
        code = self._fence(request)
        if code:
            return response(code, [])
        if request.api_key == ApiKey.STOP_REPLICA:
            keys = list(request.replicas())
            for key in keys:
                self.partitions.pop(key, None)
            return response(0, [PartitionError(*key, 0) for key in keys])
        answers = []
        for topic, state in states_in(request):
            key = (topic, state.partition)
            self.simulation.check_stored(self.number, key, state)
            known = self.partitions.get(key)
            if known is not None and known.leader_epoch >= state.leader_epoch:
                answers.append(PartitionError(*key, ErrorCode.STALE_CONTROLLER_EPOCH))
                continue
            self.partitions[key] = state
            answers.append(PartitionError(*key, 0))
        return response(0, answers)

    def _update_metadata(self, request: Any) -> Any:
        code = self._fence(request)
        if not code:
            self.live = [broker.id for broker in request.live_brokers]
            for topic, state in states_in(request):
                self.metadata[topic, state.partition] = state
        return UpdateMetadataResponse(code)

    def _fence(self, request: Any) -> int:
        if request.controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if 0 <= request.broker_epoch < self.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        self.controller_epoch = request.controller_epoch
        return 0

    # -- a leader's actions

    def led_partitions(self) -> list[Key]:
        return sorted(k for k, s in self.partitions.items() if s.leader == self.number)

    def change_isr(self, key: Key, share: float) -> None:
        """Store another ISR of a partition that this broker leads, in a separate task.

        Args:
            key: the partition.
            share: the probability that a live replica is in the new ISR.
        """
        state = self.partitions[key]
        live = [
            broker
            for broker in state.replicas
            if broker != self.number
            and self.simulation.brokers[broker].alive
            and self.simulation.random.random() < share
        ]
        new_state = LeaderAndIsr(
            self.number,
            state.leader_epoch,
            (self.number, *live),
            state.controller_epoch,
            state.zk_version,
        )
        if set(new_state.isr) == set(state.isr):
            return

        def change() -> None:
            try:
                outcome = self.states.update_isr({key: new_state})[key]
            except RegistryError:
                return
            if outcome.state is not None and outcome.still_leader:
                known = self.partitions.get(key)
                if known is not None and known.leader_epoch == outcome.state.leader_epoch:
                    known.isr = list(outcome.state.isr)
                    known.zk_version = outcome.state.zk_version

        self.runtime.spawn(change, name="isr")

    def request_shutdown(self, broker_id: int) -> None:
        """Ask this broker's controller for a controlled shutdown of a broker."""
        epoch = self.simulation.brokers[broker_id].epoch

        def request() -> None:
            try:
                self.controller.controlled_shutdown(broker_id, epoch)
            except (ProtocolError, RegistryError):
                pass

        self.runtime.spawn(request, name="shutdown")


class LossyConnection:
    """A connection between two brokers with delays and lost answers.

    A request to a frozen broker times out.
    """

    def __init__(self, sender: SimBroker, to: int) -> None:
        self.sender = sender
        self.to = to
        self.closed = False

    def send(self, request: Any, version: int) -> Any:
        simulation, runtime = self.sender.simulation, self.sender.runtime
        runtime.sleep(simulation.random.uniform(0.001, 0.05))
        target = simulation.brokers[self.to]
        if not target.alive:
            raise NetworkError("refused")
        if target.process.frozen:
            runtime.sleep(REQUEST_TIMEOUT_S)
            raise NetworkError("timed out")
        answer = target.handle(request)
        runtime.sleep(simulation.random.uniform(0.001, 0.05))
        if simulation.random.random() < 0.02 or self.closed:
            raise NetworkError("the answer was lost")
        return answer

    def close(self) -> None:
        self.closed = True
