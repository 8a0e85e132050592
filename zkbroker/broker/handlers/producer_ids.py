"""InitProducerId: an identity for an idempotent producer."""

from zkbroker.broker.services import BrokerServices
from zkbroker.errors import ErrorCode, ProtocolError
from zkbroker.network.server import Session
from zkbroker.protocol import RequestHeader
from zkbroker.protocol.messages import InitProducerIdRequest, InitProducerIdResponse
from zkbroker.registry.producer_ids import ProducerIds


class InitProducerIdHandler:
    """Handles InitProducerId: ids are unique in the cluster, claimed in blocks."""

    def __init__(self, services: BrokerServices, producer_ids: ProducerIds) -> None:
        self._services = services
        self._producer_ids = producer_ids

    def __call__(
        self, request: InitProducerIdRequest, header: RequestHeader, session: Session
    ) -> InitProducerIdResponse:
        if request.transactional_id is not None:
            raise ProtocolError(
                "transactions are not served",
                code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            )
        return InitProducerIdResponse(producer_id=self._producer_ids.next_id(), producer_epoch=0)
