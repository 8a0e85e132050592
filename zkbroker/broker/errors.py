"""Maps exceptions to error codes, in this one place.

Invariant: every exception that this library raises on purpose has a code. Any other exception is a
defect: it is logged with its traceback and becomes UNKNOWN_SERVER_ERROR.
"""

import logging
from collections.abc import Mapping
from typing import Any

from zkbroker.errors import (
    ClientError,
    ConfigError,
    ErrorCode,
    ProtocolError,
    RegistryError,
    StorageError,
    ZkbrokerError,
)
from zkbroker.protocol import ApiKey
from zkbroker.zookeeper.errors import NodeExists, NoNode

logger = logging.getLogger(__name__)

_MAX_MESSAGE_CHARS = 1000
_STORAGE_ERROR_SINCE: Mapping[ApiKey, int] = {ApiKey.PRODUCE: 4, ApiKey.FETCH: 6}
"""Versions whose clients know error 56 (KIP-112); older clients take an unknown code as final."""

# Most specific first: the first class that matches an exception decides.
_CODES: tuple[tuple[type[ZkbrokerError], ErrorCode], ...] = (
    (StorageError, ErrorCode.KAFKA_STORAGE_ERROR),
    (ConfigError, ErrorCode.INVALID_CONFIG),
    (NodeExists, ErrorCode.TOPIC_ALREADY_EXISTS),
    (NoNode, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    # ZooKeeper is away: retriable, and the same request may succeed when it is back.
    (RegistryError, ErrorCode.REQUEST_TIMED_OUT),
    (ClientError, ErrorCode.INVALID_REQUEST),
    (ZkbrokerError, ErrorCode.UNKNOWN_SERVER_ERROR),
)


def error_code(error: Exception) -> ErrorCode:
    """Return the code that a client gets for an exception."""
    if isinstance(error, ProtocolError):
        return error.code
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    logger.error("handler failed error=%r", error, exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def partition_error_code(error: Exception, api: ApiKey, version: int) -> ErrorCode:
    """Return the code of a partition in an answer: Produce below 4 and Fetch below 6 get 6, not 56.

    A client then looks for the leader, as with genuine brokers (ProduceResponse, FetchResponse).
    """
    code = error_code(error)
    if code is ErrorCode.KAFKA_STORAGE_ERROR and version < _STORAGE_ERROR_SINCE[api]:
        return ErrorCode.NOT_LEADER_FOR_PARTITION
    return code


def error_message(error: Exception) -> str:
    """Return the text that a client gets for an exception; the wire has room for 32,767 bytes.

    It may contain a client's input, such as a name of many kilobytes.
    """
    text = str(error)
    if len(text) <= _MAX_MESSAGE_CHARS:
        return text
    return f"{text[:_MAX_MESSAGE_CHARS]} ... ({len(text)} characters)"


def set_error(answer: Any, error: Exception) -> None:
    """Set the code and the text of an exception in an answer, or in one item of it."""
    answer.error_code = error_code(error)
    answer.error_message = error_message(error)
