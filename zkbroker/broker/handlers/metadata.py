"""Metadata and ApiVersions: what there is, and what is spoken."""

import logging
from collections.abc import Callable, Iterable

from zkbroker.broker.errors import error_code
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.view import NO_LEADER
from zkbroker.config.listeners import parse_endpoint
from zkbroker.errors import ConfigError, ErrorCode, ProtocolError, ZkbrokerError
from zkbroker.network.server import Session
from zkbroker.protocol import ApiKey, RequestHeader, supported
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
from zkbroker.registry.topics import check_topic_name

logger = logging.getLogger(__name__)


class ApiVersionsHandler:
    """Handles ApiVersions: the APIs that have a handler, and their versions.

    A version that is not served gets error 35 with the table, in the layout of v0; the encoder sees
    to the layout.
    """

    def __init__(self, served: Callable[[], Iterable[int]]) -> None:
        self._served = served

    def __call__(
        self, request: ApiVersionsRequest, header: RequestHeader, session: Session
    ) -> ApiVersionsResponse:
        served = {int(key) for key in self._served()}
        known = supported(ApiKey.API_VERSIONS, header.api_version)
        return ApiVersionsResponse(
            ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION,
            [span for span in served_versions() if span.key in served],
        )


class MetadataHandler:
    """Handles Metadata.

    Asking for an unknown topic may create it: it is answered with error 5 (LEADER_NOT_AVAILABLE)
    then, and the client asks again.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services

    def __call__(
        self, request: MetadataRequest, header: RequestHeader, session: Session
    ) -> MetadataResponse:
        view = self._services.view
        names = request.topics
        if names is None or (header.api_version == 0 and not names):
            names = sorted(view.topics.assignments)
        controller = self._services.controller_id()
        return MetadataResponse(
            brokers=[
                described_broker(broker, session.listener)
                for _, broker in sorted(view.brokers.items())
            ],
            cluster_id=view.cluster_id,
            controller_id=NO_LEADER if controller is None else controller,
            topics=[
                self._topic(name, create=request.allow_auto_topic_creation)
                for name in dict.fromkeys(names)
            ],
        )

    def _topic(self, name: str, *, create: bool) -> MetadataTopic:
        view = self._services.view
        internal = name in INTERNAL_TOPICS
        assignment = view.assignment(name)
        if assignment is None:
            return MetadataTopic(self._missing(name, create=create), name, internal, [])
        return MetadataTopic(
            ErrorCode.NONE,
            name,
            internal,
            [
                self._partition(name, number, replicas)
                for number, replicas in sorted(assignment.items())
            ],
        )

    def _partition(self, topic: str, number: int, replicas: tuple[int, ...]) -> MetadataPartition:
        view = self._services.view
        leader, epoch = view.leader(topic, number, replicas)
        return MetadataPartition(
            ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
            number,
            leader,
            epoch,
            list(replicas),
            [] if leader == NO_LEADER else [leader],
            [broker for broker in replicas if broker not in view.brokers],
        )

    def _missing(self, name: str, *, create: bool) -> ErrorCode:
        services = self._services
        try:
            check_topic_name(name)
            if name in services.view.topics.deleting:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if not (create and services.config.auto_create_topics):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            services.topics.create_automatically(name)
        except ProtocolError as error:
            return error.code
        except ZkbrokerError as error:
            logger.warning("topic not created automatically topic=%s error=%s", name, error)
            code = error_code(error)
            return ErrorCode.LEADER_NOT_AVAILABLE if code.retriable else code
        return ErrorCode.LEADER_NOT_AVAILABLE


def described_broker(broker: BrokerInfo, listener: str) -> MetadataBroker:
    """Describe a broker to a client that came through a listener.

    Clients are told the endpoint of the same listener, so that they stay on their own side of the
    network; a broker that has none by that name is described by its first.
    """
    host, port = broker.host, broker.port
    for text in broker.endpoints:
        try:
            endpoint = parse_endpoint(text)
        except ConfigError:
            continue
        if endpoint.name == listener:
            host, port = endpoint.host, endpoint.port
            break
    return MetadataBroker(broker.id, host, port, broker.rack)
