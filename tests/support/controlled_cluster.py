"""A controller's term over a simulated ZooKeeper, with channels that keep all requests.

Nothing takes time: `settle` lets the term react to changes, and brokers respond, until nothing is
left to do.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.instant_session import InstantSession, new_server
from zkbroker.controller.context import TermSettings
from zkbroker.controller.partitions import ElectionCounts
from zkbroker.controller.term import ControllerTerm, Signal
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import (
    LeaderAndIsrResponse,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from zkbroker.protocol.messages.leader_and_isr import PartitionError
from zkbroker.registry import paths, topics
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.notifications import note_isr_changes
from zkbroker.registry.partition_states import Key, LeaderAndIsr, PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.replica.fencing import states_in
from zkbroker.zookeeper import NoNode


@dataclass(frozen=True)
class SentRequest:
    """A request to a broker, and the callback for its response."""

    broker: int
    request: Any
    version: int
    answered: Any

    def states(self) -> dict[Key, Any]:
        return {(topic, state.partition): state for topic, state in states_in(self.request)}


@dataclass
class PlayedChannels:
    """Replaces the channels to brokers: keeps all requests, and responds to them in `answer`.

    Args:
        sent: all requests.
        unanswered: the requests without a response.
        open_to: the brokers with a channel.
        errors: (broker, partition) -> error code of the partition in responses.
        silent: the brokers that do not respond.
        refusals: broker -> error code of its whole LeaderAndIsr and StopReplica responses.
        metadata_refusals: broker -> error code of its UpdateMetadata responses.
    """

    sent: list[SentRequest] = field(default_factory=list)
    unanswered: list[SentRequest] = field(default_factory=list)
    open_to: set[int] = field(default_factory=set)
    errors: dict[tuple[int, Key], int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    refusals: dict[int, int] = field(default_factory=dict)
    metadata_refusals: dict[int, int] = field(default_factory=dict)

    def open(self, broker: BrokerInfo) -> None:
        self.open_to.add(broker.id)

    def drop(self, broker: int) -> None:
        self.open_to.discard(broker)
        self.unanswered = [each for each in self.unanswered if each.broker != broker]

    def send(self, broker: int, request: Any, version: int, answered: Any) -> None:
        assert broker in self.open_to, "a request to a broker without a channel"
        item = SentRequest(broker, request, version, answered)
        self.sent.append(item)
        self.unanswered.append(item)

    def answer(self) -> bool:
        due = [each for each in self.unanswered if each.broker not in self.silent]
        self.unanswered = [each for each in self.unanswered if each.broker in self.silent]
        for item in due:
            if item.answered is not None:
                item.answered(item.broker, self._response(item))
        return bool(due)

    def _response(self, item: SentRequest) -> Any:
        if item.request.api_key == ApiKey.UPDATE_METADATA:
            return UpdateMetadataResponse(self.metadata_refusals.get(item.broker, 0))
        if item.request.api_key == ApiKey.LEADER_AND_ISR:
            keys, response = list(item.states()), LeaderAndIsrResponse
        else:
            keys, response = list(item.request.replicas()), StopReplicaResponse
        if item.broker in self.refusals:
            code = self.refusals[item.broker]
            return response(code, [PartitionError(*key, code) for key in keys])
        return response(
            0, [PartitionError(*key, self.errors.get((item.broker, key), 0)) for key in keys]
        )

    def requests(self, api_key: ApiKey, broker: int | None = None) -> list[SentRequest]:
        return [
            each
            for each in self.sent
            if each.request.api_key == api_key and broker in (None, each.broker)
        ]

    def leader_and_isr(self, key: Key) -> dict[int, Any]:
        """Return broker -> the last state of a partition that a LeaderAndIsr sent to it."""
        return self._states(ApiKey.LEADER_AND_ISR, key)

    def metadata(self, key: Key) -> dict[int, Any]:
        """Return broker -> the last state of a partition that an UpdateMetadata sent to it."""
        return self._states(ApiKey.UPDATE_METADATA, key)

    def _states(self, api_key: ApiKey, key: Key) -> dict[int, Any]:
        return {
            each.broker: each.states()[key]
            for each in self.requests(api_key)
            if key in each.states()
        }

    def stopped(self, broker: int, *, delete: bool) -> set[Key]:
        """Return the partitions that StopReplica requests to a broker have stopped or deleted."""
        return {
            key
            for each in self.requests(ApiKey.STOP_REPLICA, broker)
            if each.request.delete_partitions == delete
            for key in each.request.replicas()
        }

    def kinds(self) -> list[tuple[int, str]]:
        return [(each.broker, ApiKey(each.request.api_key).name) for each in self.sent]


class ControlledCluster:
    """Brokers, topics and one controller's term."""

    def __init__(self, form: StateForm = StateForm.EPHEMERAL, **settings: Any) -> None:
        self.server = new_server()
        self.server.create(paths.CONTROLLER_EPOCH, b"0")
        self.session = InstantSession(self.server)
        self.states = PartitionStates(self.session, form)
        self.settings = TermSettings(**{"controller_id": 0, **settings})
        self.channels = PlayedChannels()
        self.signals: set[Signal] = set()
        self.counts = ElectionCounts()
        self.epoch = 0
        self.sessions: dict[int, InstantSession] = {}
        self.led_by_others: list[Key] = []
        """The leaders that the next controller knew from metadata before its election."""
        self.term: ControllerTerm

    # -- brokers

    def start(self, *brokers: int) -> None:
        for broker in brokers:
            session = self.sessions[broker] = InstantSession(self.server)
            info = BrokerInfo(broker, "127.0.0.1", 9000 + broker)
            session.create(paths.broker(broker), info.to_json(), ephemeral=True)

    def join(self, *brokers: int) -> None:
        """Start brokers, and let the controller react."""
        self.start(*brokers)
        self.settle()

    def kill(self, *brokers: int) -> None:
        for broker in brokers:
            self.sessions.pop(broker).close()

    def lose(self, *brokers: int) -> None:
        """Kill brokers, and let the controller react."""
        self.kill(*brokers)
        self.settle()

    def change_isr(self, key: Key, *isr: int) -> None:
        """Let a partition's leader store another ISR, without a notification."""
        state = self.state(key)
        leader = PartitionStates(self.sessions[state.leader], self.states.form)
        wanted = LeaderAndIsr(
            state.leader, state.leader_epoch, isr, state.controller_epoch, state.zk_version
        )
        assert leader.update_isr({key: wanted})[key].written

    def announce_isr(self, key: Key, *isr: int) -> None:
        """Let a partition's leader store another ISR, and let the controller react to the note."""
        self.change_isr(key, *isr)
        note_isr_changes(self.session, [key])
        self.settle()

    # -- topics

    def create_topic(self, name: str, *replicas: list[int], **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topics.create_topic(self.session, name, dict(enumerate(replicas)), settings)

    def add_topic(self, name: str, *replicas: list[int], **config: str) -> None:
        """Create a topic, and let the controller react."""
        self.create_topic(name, *replicas, **config)
        self.settle()

    def delete_topic(self, name: str = "t") -> None:
        """Mark a topic for deletion, and let the controller react."""
        topics.mark_for_deletion(self.session, name)
        self.settle()

    def create_json(self, path: str, data: Any) -> None:
        self.session.create(path, json.dumps(data).encode())

    def exists(self, path: str) -> bool:
        return path in self.server.nodes

    def json(self, path: str) -> Any:
        try:
            return json.loads(self.server.get(path)[0])
        except NoNode:
            return None

    # -- the controller

    def elect_controller(self) -> None:
        """Begin the term of a new controller."""
        self.epoch += 1
        version = self.session.set(paths.CONTROLLER_EPOCH, b"%d" % self.epoch).version
        self.signals.clear()
        self.term = ControllerTerm(
            self.settings,
            self.session,
            self.states,
            self.channels,
            self._signal,
            self.epoch,
            version,
            self.counts,
            last_led_by_others=lambda live: self.led_by_others,
        )
        self.term.begin()
        self.settle()

    def _signal(self, name: Signal) -> Any:
        return _Signal(self, name)

    def settle(self) -> None:
        while True:
            signals, self.signals = self.signals, set()
            if signals:
                self.term.work(signals)
            if not self.channels.answer() and not self.signals:
                return

    def clear_sent(self) -> None:
        """Forget all sent requests."""
        self.channels.sent.clear()

    def state(self, key: Key) -> LeaderAndIsr:
        return self.states.read([key])[key]

    def stored(self, key: Key) -> tuple[int, int, list[int]]:
        """Return the stored leader, leader epoch and ISR of a partition."""
        state = self.state(key)
        return state.leader, state.leader_epoch, list(state.isr)


class _Signal:
    def __init__(self, cluster: ControlledCluster, name: Signal) -> None:
        self.cluster, self.name = cluster, name

    def set(self) -> None:
        self.cluster.signals.add(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Signal) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)
