"""Error codes of the wire protocol and the exceptions of this library.

Invariant: every error code of the served protocol level (Kafka 2.1, and a few later ones that are
sent to clients) has one `ErrorCode`, and every `ProtocolError` carries one. Only the broker's
request dispatcher turns exceptions into codes; clients turn codes into exceptions with
`protocol_error`.
"""

from enum import IntEnum
from typing import ClassVar, Final, Self

_RETRIABLE: Final = True


class ErrorCode(IntEnum):
    """Error codes of the protocol.

    Attributes:
        retriable: whether the same request may succeed later without a change by the user, as in
            the Java client.
    """

    retriable: bool

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2, _RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RETRIABLE
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5, _RETRIABLE
    NOT_LEADER_FOR_PARTITION = 6, _RETRIABLE
    REQUEST_TIMED_OUT = 7, _RETRIABLE
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9, _RETRIABLE
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13, _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, _RETRIABLE
    NOT_COORDINATOR = 16, _RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19, _RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRIABLE
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41, _RETRIABLE
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56, _RETRIABLE
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRIABLE
    LISTENER_NOT_FOUND = 72, _RETRIABLE
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74, _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78, _RETRIABLE
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81
    INVALID_RECORD = 87

    def __new__(cls, number: int, retriable: bool = False) -> Self:
        code = int.__new__(cls, number)
        code._value_ = number
        code.retriable = retriable
        return code


class ZkbrokerError(Exception):
    """Base of every exception this library raises on purpose."""


class ConfigError(ZkbrokerError):
    """A configuration that cannot be used; the message says what to change."""


class StorageError(ZkbrokerError):
    """The data directory or a file in it cannot be used."""


class RegistryError(ZkbrokerError):
    """ZooKeeper cannot be reached, or the content of its nodes does not allow the operation."""


class ClientError(ZkbrokerError):
    """A producer or consumer cannot do an operation; the message says what to change."""


class ProtocolError(ZkbrokerError):
    """An error that has a code on the wire.

    Subclasses exist for the codes that callers distinguish; `code` is the subclass's own unless
    another one is given.
    """

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR
    registered: ClassVar[dict[ErrorCode, type["ProtocolError"]]] = {}

    def __init__(self, message: str = "", *, code: ErrorCode | None = None) -> None:
        if code is not None:
            self.code = code
        super().__init__(message or self.code.name)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "code" in cls.__dict__:
            ProtocolError.registered[cls.code] = cls


class OffsetOutOfRange(ProtocolError):
    """The offset is outside the log; `earliest` and `latest` hold the valid range if known."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(
        self,
        message: str = "",
        *,
        code: ErrorCode | None = None,
        earliest: int | None = None,
        latest: int | None = None,
    ) -> None:
        super().__init__(message, code=code)
        self.earliest = earliest
        self.latest = latest


class CorruptMessage(ProtocolError):
    """A CRC does not match, or bytes cannot be a message set.

    A decoder sets `position` to the place in its data where the bad entry begins, and `base_offset`
    if the head of that entry could be read.
    """

    code = ErrorCode.CORRUPT_MESSAGE
    position: int | None = None
    base_offset: int | None = None


class UnknownTopicOrPartition(ProtocolError):
    """The topic or partition does not exist, or this broker does not host it."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class LeaderNotAvailable(ProtocolError):
    """The partition has no leader at the moment."""

    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderForPartition(ProtocolError):
    """Another broker leads the partition; refresh the metadata."""

    code = ErrorCode.NOT_LEADER_FOR_PARTITION


class RequestTimedOut(ProtocolError):
    """No answer within the request's time-out."""

    code = ErrorCode.REQUEST_TIMED_OUT


class NotEnoughReplicas(ProtocolError):
    """Fewer replicas are in sync than `min.insync.replicas` requires; nothing was stored."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class MessageSizeTooLarge(ProtocolError):
    """A message is larger than the broker accepts or than a fetch may return."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class InvalidTopic(ProtocolError):
    """Not a topic name: 1-249 characters of [a-zA-Z0-9._-], not `.` or `..`."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class UnsupportedForMessageFormat(ProtocolError):
    """The stored message format does not support the request."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class UnsupportedCompressionType(ProtocolError):
    """The codec is not allowed in this version of the request."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class UnsupportedVersion(ProtocolError):
    """The peer does not support this version of the request."""

    code = ErrorCode.UNSUPPORTED_VERSION


class NetworkError(ProtocolError):
    """The connection failed or was closed before the answer came."""

    code = ErrorCode.NETWORK_EXCEPTION


class AuthenticationFailed(NetworkError):
    """The TLS handshake or the login failed: the settings of one side must change."""


_DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
# The answer does not name the operation; the broker's audit log does.
_DENIED_HINT = (
    "the ACLs do not allow it: the broker's log names user and operation, "
    "`zkbroker acls add` allows it"
)


def protocol_error(code: int, message: str = "") -> ProtocolError:
    """Make the exception for an error code received from a peer.

    Args:
        code: any int16; a code that this library does not know becomes UNKNOWN_SERVER_ERROR with
            the number in the message.
        message: describes the failed operation.
    """
    try:
        known = ErrorCode(code)
    except ValueError:
        return ProtocolError(f"{message}: unknown error code {code}".lstrip(": "))
    text = f"{message}: {known.name} ({code})" if message else f"{known.name} ({code})"
    if known in _DENIED:
        text += f": {_DENIED_HINT}"
    error_class = ProtocolError.registered.get(known, ProtocolError)
    return error_class(text, code=known)
