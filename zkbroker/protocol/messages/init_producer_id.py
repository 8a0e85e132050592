"""InitProducerId (22): the identity of an idempotent producer."""

from zkbroker.protocol.schema import (
    Request,
    int16,
    int32,
    int64,
    keyword_message,
    string,
    wire_message,
)


@wire_message
class InitProducerIdRequest(Request):
    transactional_id: str | None = string(nullable=0, default=None)
    transaction_timeout_ms: int = int32(default=60000)


@keyword_message
class InitProducerIdResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
