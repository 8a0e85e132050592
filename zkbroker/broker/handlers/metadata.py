"""Metadata and ApiVersions: the contents of the cluster, and the supported API versions."""

import logging
import time
from collections.abc import Collection, Iterable

from zkbroker.broker.context import RequestContext
from zkbroker.broker.errors import error_code
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.view import DECIDED_WITHIN_S, NO_LEADER
from zkbroker.errors import ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.protocol import ApiKey, supported
from zkbroker.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    served_versions,
)
from zkbroker.protocol.messages.metadata import MetadataBroker, MetadataPartition, MetadataTopic
from zkbroker.protocol.offsets_topic import INTERNAL_TOPICS
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.topic_rules import check_topic_name

logger = logging.getLogger(__name__)

LISTENER_NOT_FOUND_VERSION = 6
"""The first version whose clients know error 72."""

CREATE_WITHIN_S = 5.0
"""How long one request may create topics: it may name thousands."""


class ApiVersionsHandler:
    """Handles ApiVersions: the APIs that have a handler, and their versions.

    An unsupported version gets error 35 with the table, in the layout of v0, which the encoder
    chooses.
    """

    def __init__(self, served: Collection[ApiKey]) -> None:
        self._served = served

    def __call__(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        known = supported(ApiKey.API_VERSIONS, context.api_version)
        return ApiVersionsResponse(
            ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION,
            [span for span in served_versions() if span.key in self._served],
        )


class MetadataHandler:
    """Handles Metadata.

    A request for an unknown topic may create it: the answer has error 5 (LEADER_NOT_AVAILABLE), and
    the client asks again. Topics that one request had no time to create get the same error; the
    client's next request creates them.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def __call__(self, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
        view = self._services.view
        names = request.topics or []
        every = request.topics is None or (context.api_version == 0 and not names)
        if every:
            names = sorted(view.topics.assignments)
        self._await_decisions(names, context)
        controller = self._services.controller_id()
        create_until = time.monotonic() + CREATE_WITHIN_S
        return MetadataResponse(
            brokers=[
                described
                for _, broker in sorted(view.brokers.items())
                if (described := described_broker(broker, context.listener)) is not None
            ],
            cluster_id=view.cluster_id,
            controller_id=NO_LEADER if controller is None else controller,
            topics=[
                self._topic(
                    name,
                    context,
                    create_until=create_until if request.allow_auto_topic_creation else None,
                )
                for name in context.paced(dict.fromkeys(names))
                # A topic that was deleted since the names were listed must not be created again.
                if not every or name in view.topics.assignments
            ],
        )

    def _await_decisions(self, names: Iterable[str], context: RequestContext) -> None:
        view = self._services.view
        new = [name for name in names if view.awaits_decision(name)]
        if new:
            with context.park(view.notify):
                view.wait_for(
                    lambda: (
                        self._services.draining
                        or context.peer_gone
                        or not any(map(view.awaits_decision, new))
                    ),
                    DECIDED_WITHIN_S,
                )

    def _topic(
        self, name: str, context: RequestContext, *, create_until: float | None
    ) -> MetadataTopic:
        view = self._services.view
        internal = name in INTERNAL_TOPICS
        assignment = view.assignment(name)
        if assignment is None:
            return MetadataTopic(self._missing(name, create_until), name, internal, [])
        return MetadataTopic(
            ErrorCode.NONE,
            name,
            internal,
            [
                self._partition(name, number, replicas, context)
                for number, replicas in sorted(assignment.items())
            ],
        )

    def _partition(
        self, topic: str, number: int, replicas: tuple[int, ...], context: RequestContext
    ) -> MetadataPartition:
        view, version = self._services.view, context.api_version
        state = view.decided(topic, number)
        leader, epoch = view.leader(topic, number)
        live = leader != NO_LEADER
        assigned = replicas if state is None else tuple(state.replicas)
        offline = {each for each in assigned if each not in view.brokers}
        if state is not None:
            offline.update(each for each in state.offline_replicas if each in assigned)
        in_sync = [] if state is None or not live else list(state.isr)
        code = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE
        if not code and not view.reachable(leader, context.listener):
            # The leader has no endpoint for clients of this listener.
            code = ErrorCode.LEADER_NOT_AVAILABLE
            if version >= LISTENER_NOT_FOUND_VERSION:
                code = ErrorCode.LISTENER_NOT_FOUND
            leader = NO_LEADER
        if version == 0:
            # Version 0 lists only live replicas, with an error where some are missing.
            in_sync = [each for each in in_sync if each not in offline]
            if offline and not code:
                code = ErrorCode.REPLICA_NOT_AVAILABLE
            assigned = tuple(each for each in assigned if each not in offline)
        return MetadataPartition(
            error_code=code,
            partition=number,
            leader=leader,
            leader_epoch=epoch,
            replicas=list(assigned),
            isr=in_sync,
            offline_replicas=[e for e in replicas if e in offline],
        )

    def _missing(self, name: str, create_until: float | None) -> ErrorCode:
        services = self._services
        try:
            check_topic_name(name)
            if name in services.view.topics.deleting:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            wanted = create_until is not None and services.config.auto_create_topics
            # Coordinators' topics are created regardless of the request and the settings.
            if not wanted and name not in INTERNAL_TOPICS:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if create_until is not None and time.monotonic() > create_until:
                return ErrorCode.LEADER_NOT_AVAILABLE
            services.topics.create_automatically(name)
        except ProtocolError as error:
            return error.code
        except ZkbrokerError as error:
            logger.warning("topic not created automatically topic=%s error=%s", name, error)
            code = error_code(error)
            return ErrorCode.LEADER_NOT_AVAILABLE if code.retriable else code
        return ErrorCode.LEADER_NOT_AVAILABLE


def described_broker(broker: BrokerInfo, listener: str) -> MetadataBroker | None:
    """Describe a broker to a client of a listener.

    The endpoint is that of the client's listener, so that clients stay in their own network; None
    for a broker without such a listener.
    """
    found = broker.listeners.get(listener)
    return None if found is None else MetadataBroker(broker.id, *found[1:], broker.rack)
