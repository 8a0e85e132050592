"""The requests that follow from one event: gathered, then sent in one batch.

    to each broker: LeaderAndIsr, UpdateMetadata, StopReplica (keep), StopReplica (delete)

Invariants: a batch holds only stored states (`ControllerContext.states`); every request carries
the controller's epoch and the receiver's broker epoch. UpdateMetadata about brokers alone goes out
before everything else, so that followers know where their leaders listen.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from zkbroker.controller.answers import Answered, BrokerAnswers
from zkbroker.controller.channel import BrokerChannels
from zkbroker.controller.context import ControllerContext, LiveBroker, TermSettings
from zkbroker.protocol import ApiKey
from zkbroker.protocol.inter_broker import INTER_BROKER_VERSIONS
from zkbroker.protocol.messages.leader_and_isr import (
    LEADER_DURING_DELETE,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrTopic,
    LiveLeader,
)
from zkbroker.protocol.messages.stop_replica import (
    StopReplicaPartition,
    StopReplicaRequest,
    StopReplicaTopic,
)
from zkbroker.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    UpdateMetadataTopic,
)
from zkbroker.registry.partition_states import Key, LeaderAndIsr
from zkbroker.runtime import Runtime
from zkbroker.runtime.pacing import paced

SECURITY_PROTOCOLS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


@dataclass(slots=True)
class RequestBatch:
    """Gathers the requests of the controller of an epoch, and sends them."""

    context: ControllerContext
    settings: TermSettings
    epoch: int
    answers: BrokerAnswers
    channels: BrokerChannels
    runtime: Runtime
    _brokers_first: set[int] = field(init=False, default_factory=set)
    _decided: dict[int, dict[Key, LeaderAndIsrPartition]] = field(init=False, default_factory=dict)
    _metadata: dict[int, dict[Key, None]] = field(init=False, default_factory=dict)
    _stopped: dict[tuple[int, bool], dict[Key, None]] = field(init=False, default_factory=dict)
    _stop_answered: dict[int, Answered] = field(init=False, default_factory=dict)

    def brokers_changed(self, brokers: Iterable[int]) -> None:
        """Send the list of live brokers to brokers."""
        self._brokers_first.update(brokers)

    def decided(
        self,
        key: Key,
        brokers: Iterable[int],
        *,
        new: bool = False,
        replicas: tuple[int, ...] | None = None,
    ) -> None:
        """Send the decision for a partition to brokers.

        Args:
            key: the partition.
            brokers: the receivers; dead brokers are left out.
            new: whether their replica is created.
            replicas: replicas to send in place of the assigned ones.
        """
        state = self.context.states[key]
        message = LeaderAndIsrPartition(
            topic=key[0],
            partition=key[1],
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            zk_version=state.zk_version,
            replicas=list(self.context.replicas(key) if replicas is None else replicas),
            is_new=new,
        )
        for broker in brokers:
            if broker in self.context.brokers:
                earlier = self._decided.setdefault(broker, {}).get(key)
                made = new or (earlier is not None and earlier.is_new)
                self._decided[broker][key] = replace(message, is_new=made)

    def metadata(self, keys: Iterable[Key], brokers: Iterable[int] | None = None) -> None:
        """Send the leaders of partitions to brokers (to all live ones when None)."""
        wanted = list(keys)
        if not wanted:
            return
        for broker in self.context.brokers if brokers is None else brokers:
            self._metadata.setdefault(broker, {}).update(dict.fromkeys(wanted))

    def stop(
        self, key: Key, brokers: Iterable[int], *, delete: bool, answered: Answered | None = None
    ) -> None:
        """Tell brokers to stop a replica, and to delete its log when `delete`."""
        for broker in brokers:
            if broker in self.context.brokers:
                self._stopped.setdefault((broker, delete), {})[key] = None
                if answered is not None:
                    self._stop_answered[broker] = answered

    def flush(self) -> None:
        """Send the gathered requests."""
        live = [broker_message(each) for _, each in sorted(self.context.brokers.items())]
        # UpdateMetadata about partitions also names the brokers: it is enough if no LeaderAndIsr is
        # sent before it.
        soon = self._metadata.keys() - self._decided.keys()
        for broker in sorted(self._brokers_first - soon):
            self._send(broker, self._update_metadata((), live), self.answers.update_metadata)
        for broker in sorted(self._decided):
            decided = self._leader_and_isr(self._decided[broker].values())
            self._send(broker, decided, self.answers.leader_and_isr)
        built: dict[tuple[Key, ...], UpdateMetadataRequest] = {}
        for broker in sorted(self._metadata):
            keys = tuple(self._metadata[broker])
            if keys not in built:
                built[keys] = self._update_metadata(keys, live)
            self._send(broker, built[keys], self.answers.update_metadata)
        for broker, delete in sorted(self._stopped):
            stopped = self._stop_replica(self._stopped[broker, delete], delete)
            answered = self._stop_answered.get(broker) if delete else None
            self._send(broker, stopped, answered)
        self._brokers_first.clear()
        self._decided, self._metadata = {}, {}
        self._stopped, self._stop_answered = {}, {}

    def _send(self, broker: int, request: Any, answered: Answered | None) -> None:
        live = self.context.brokers.get(broker)
        if live is not None:
            addressed = replace(request, broker_epoch=live.epoch)
            self.channels.send(broker, addressed, self._version(request.api_key), answered)

    def _version(self, api_key: ApiKey) -> int:
        return INTER_BROKER_VERSIONS[self.settings.level][api_key]

    # -- the messages

    def _leader_and_isr(self, partitions: Iterable[LeaderAndIsrPartition]) -> LeaderAndIsrRequest:
        states = list(partitions)
        request = LeaderAndIsrRequest(
            controller_id=self.settings.controller_id, controller_epoch=self.epoch
        )
        if self._version(ApiKey.LEADER_AND_ISR) < 2:
            request.partition_states = states
        else:
            request.topic_states = _by_topic(LeaderAndIsrTopic, states)
        leaders = {state.leader for state in states} & self.context.brokers.keys()
        for leader in sorted(leaders):
            info = self.context.brokers[leader].info
            found = info.listeners.get(self.settings.listener)
            host, port = (info.host, info.port) if found is None else found[1:]
            request.live_leaders.append(LiveLeader(leader, host, port))
        return request

    def _update_metadata(
        self, keys: Iterable[Key], live: list[UpdateMetadataBroker]
    ) -> UpdateMetadataRequest:
        found = (self._metadata_of(key) for key in paced(self.runtime, keys))
        states = [state for state in found if state is not None]
        request = UpdateMetadataRequest(
            controller_id=self.settings.controller_id,
            controller_epoch=self.epoch,
            live_brokers=live,
        )
        if self._version(ApiKey.UPDATE_METADATA) < 5:
            request.partition_states = states
        else:
            request.topic_states = _by_topic(UpdateMetadataTopic, states)
        return request

    def _metadata_of(self, key: Key) -> UpdateMetadataPartition | None:
        context = self.context
        replicas = context.replicas(key)
        state = context.states.get(key)
        if context.ending(key):
            state = LeaderAndIsr(LEADER_DURING_DELETE, 0, () if state is None else state.isr)
        if state is None or not replicas:
            return None
        return UpdateMetadataPartition(
            topic=key[0],
            partition=key[1],
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            zk_version=max(state.zk_version, 0),
            replicas=list(replicas),
            # Replicas of brokers that are about to stop also count as offline.
            offline_replicas=[each for each in replicas if each not in context.electable(key)],
        )

    def _stop_replica(self, keys: Iterable[Key], delete: bool) -> StopReplicaRequest:
        request = StopReplicaRequest(
            controller_id=self.settings.controller_id,
            controller_epoch=self.epoch,
            delete_partitions=delete,
        )
        topics: dict[str, StopReplicaTopic] = {}
        for topic, number in keys:
            if self._version(ApiKey.STOP_REPLICA) < 1:
                request.partitions.append(StopReplicaPartition(topic, number))
            else:
                item = topics.setdefault(topic, StopReplicaTopic(topic))
                item.partitions.append(number)
        request.topics = list(topics.values())
        return request


def broker_message(live: LiveBroker) -> UpdateMetadataBroker:
    """A live broker with every endpoint, for all versions of UpdateMetadata."""
    info = live.info
    endpoints = [
        UpdateMetadataEndpoint(port, host, name, SECURITY_PROTOCOLS.get(protocol, 0))
        for name, (protocol, host, port) in info.listeners.items()
    ]
    return UpdateMetadataBroker(
        id=info.id, host=info.host, port=info.port, endpoints=endpoints, rack=info.rack
    )


def _by_topic(topic_of: Callable[[str], Any], states: Iterable[Any]) -> list[Any]:
    topics: dict[str, Any] = {}
    for state in states:
        topics.setdefault(state.topic, topic_of(state.topic)).partition_states.append(state)
    return list(topics.values())
