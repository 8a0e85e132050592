"""The parts of a broker, each composed of those before it.

    view -> membership -> writer of leader states -> replicas -> controller -> services
      -> coordinators of groups and transactions -> handlers -> dispatcher

Invariant: a part is given only existing parts. No part is started here: `node` starts them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from zkbroker.broker.authorization import Authorization
from zkbroker.broker.clients import ClientVersions
from zkbroker.broker.coordination import Coordination
from zkbroker.broker.dialing import Dialing
from zkbroker.broker.dispatcher import Dispatcher
from zkbroker.broker.foundation import Foundation
from zkbroker.broker.handler_table import handler_table
from zkbroker.broker.handlers.replication import ReplicationHandlers
from zkbroker.broker.logins import login_gates
from zkbroker.broker.membership import ClusterMembership
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.peer_levels import PeerLevels
from zkbroker.broker.peers import PeerKnowledge
from zkbroker.broker.plain_ways import plain_ways
from zkbroker.broker.quotas.enforcement import enforce_quotas
from zkbroker.broker.replica_copying import ReplicaCopying
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.topic_settings import TopicSettingsSync
from zkbroker.broker.topics import Topics
from zkbroker.broker.transactions import TransactionCoordination
from zkbroker.broker.view import ClusterView
from zkbroker.controller import Controller
from zkbroker.network.server.server import Gate
from zkbroker.registry.scram_secret import scram_secret
from zkbroker.registry.state_form import StateForm
from zkbroker.replica.checkpoint import HighWatermarkCheckpoint
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.leadership import LeaderSettings
from zkbroker.replica.manager import ReplicaManager
from zkbroker.replica.state_writer import LeaderStateWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts:
    """A composed broker."""

    foundation: Foundation
    membership: ClusterMembership
    writer: LeaderStateWriter
    copying: ReplicaCopying
    replicas: ReplicaManager
    checkpoint: HighWatermarkCheckpoint
    peers: PeerKnowledge
    controller: Controller
    services: BrokerServices
    coordination: Coordination
    transactions: TransactionCoordination
    authorization: Authorization
    dispatcher: Dispatcher
    gates: Mapping[str, Gate]


def compose(foundation: Foundation) -> BrokerParts:
    """Make the parts of a broker, in the order in which they depend on each other."""
    config, runtime = foundation.config, foundation.runtime
    session, logs, states = foundation.session, foundation.logs, foundation.states
    own, capacity = foundation.own, foundation.capacity

    dialing = Dialing(runtime, own, foundation.local, config.inter_broker, config.security.client)
    view = ClusterView(own)
    view.cluster_id = foundation.cluster_id
    topic_settings = TopicSettingsSync(session, logs, view)
    membership = ClusterMembership(config, session, states, view, own, dialing)
    fence = ControllerFence(lambda: membership.broker_epoch, membership.was_elected)
    writer = LeaderStateWriter(session, states, own.id, runtime=runtime, written=view.notify)
    copying = ReplicaCopying(config, dialing, own.id, view, runtime=runtime)
    replicas = ReplicaManager(
        own.id,
        logs,
        writer,
        fence,
        topic_settings.of,
        runtime=runtime,
        settings=LeaderSettings(
            lag_ms=config.replica_lag_ms,
            isr_proposed=writer.propose,
            session_over=membership.session_over,
            epochs_may_fall=states.form is StateForm.PERSISTENT,
        ),
        fetchers=copying.fetchers,
        open_limit=lambda: capacity.limit,
    )
    membership.on_registered(replicas.session_renewed)
    controller = Controller(
        config,
        session,
        states,
        own.id,
        lambda broker: dialing.connection(
            broker, "controller", config.controller_socket_timeout_ms
        ),
        view.last_led_by_others,
    )
    services = BrokerServices(
        config=foundation.dynamic.config,
        dynamic=foundation.dynamic,
        broker_id=own.id,
        runtime=runtime,
        session=session,
        logs=logs,
        view=view,
        dialing=dialing,
        replicas=replicas,
        fetchers=copying.fetchers,
        topics=Topics(config, session, view, capacity),
        metrics=BrokerMetrics(config.metrics_topics),
        clients=ClientVersions(runtime),
        controller_id=lambda: membership.controller_id,
        controller_metrics=controller.metrics,
    )
    coordination = Coordination(services)
    transactions = TransactionCoordination(services, coordination.coordinator)
    replication = ReplicationHandlers(services, fence, controller, membership.learn_epoch)
    authorization = Authorization(config, foundation.authorizer, session, runtime)
    handlers = handler_table(
        services,
        coordination,
        transactions,
        replication,
        copying.leader_throttle,
        authorization.handlers,
    )
    dispatcher = Dispatcher(
        authorization.guard(handlers, services.would_create),
        services.metrics,
        services.clients,
        max_items=config.max_request_items,
    )
    dispatcher.plain_ways = plain_ways(handlers, authorization.permissions)
    enforce_quotas(dispatcher, config, services.users, runtime, foundation.server.unmute)
    gates = login_gates(
        config,
        services,
        dispatcher.handle,
        lambda: foundation.patiently(lambda: scram_secret(foundation.session)),
    )
    view.on_brokers(PeerLevels(own.id, config.inter_broker_protocol).look)
    view.on_topics(topic_settings.apply)
    view.on_topics(coordination.topics_changed)
    return BrokerParts(
        foundation=foundation,
        membership=membership,
        writer=writer,
        copying=copying,
        replicas=replicas,
        checkpoint=HighWatermarkCheckpoint(
            logs, config.high_watermark_checkpoint_ms, runtime=runtime
        ),
        # A peer that is silent for a whole session time-out counts as gone.
        peers=PeerKnowledge(
            view,
            membership.session_over,
            lambda broker: dialing.connection(
                broker, "metadata", config.zookeeper_session_timeout_ms
            ),
            runtime=runtime,
        ),
        controller=controller,
        services=services,
        coordination=coordination,
        transactions=transactions,
        authorization=authorization,
        dispatcher=dispatcher,
        gates=gates,
    )
