"""The APIs of the protocol and their served versions.

SUPPORTED_VERSIONS lists the versions that ApiVersions announces to clients: the level of Kafka 2.1,
and ElectPreferredLeaders of 2.2, from which no client infers a broker of 2.2. BROKER_VERSIONS adds
the versions of requests between brokers, which are served without being announced: brokers never
negotiate, the sender's `inter.broker.protocol.version` (here 0.8.2 to 2.3) fixes the version.

Invariant: no served version is flexible (compact or tagged fields came later), so one header form
and one codec cover all of them. The one exception is ControlledShutdown 0, whose header lacks the
client id.
"""

from dataclasses import dataclass
from enum import IntEnum


class ApiKey(IntEnum):
    """The number of an API in a request's header."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_PREFERRED_LEADERS = 43
    VERIFY_TRANSACTION = 10001
    """Our own API between zkbroker brokers; the numbers of genuine APIs are far below."""


@dataclass(slots=True)
class RequestHeader:
    """The header before every request; its API and version need not be served."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


SUPPORTED_VERSIONS: dict[ApiKey, tuple[int, int]] = {
    ApiKey.PRODUCE: (0, 7),
    ApiKey.FETCH: (0, 10),
    ApiKey.LIST_OFFSETS: (0, 4),
    ApiKey.METADATA: (0, 7),
    ApiKey.OFFSET_COMMIT: (0, 6),
    ApiKey.OFFSET_FETCH: (0, 5),
    ApiKey.FIND_COORDINATOR: (0, 2),
    ApiKey.JOIN_GROUP: (0, 3),
    ApiKey.HEARTBEAT: (0, 2),
    ApiKey.LEAVE_GROUP: (0, 2),
    ApiKey.SYNC_GROUP: (0, 2),
    ApiKey.DESCRIBE_GROUPS: (0, 2),
    ApiKey.LIST_GROUPS: (0, 2),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 2),
    ApiKey.CREATE_TOPICS: (0, 3),
    ApiKey.DELETE_TOPICS: (0, 3),
    ApiKey.DELETE_RECORDS: (0, 1),
    ApiKey.INIT_PRODUCER_ID: (0, 1),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 1),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 1),
    ApiKey.END_TXN: (0, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 2),
    ApiKey.DESCRIBE_ACLS: (0, 1),
    ApiKey.CREATE_ACLS: (0, 1),
    ApiKey.DELETE_ACLS: (0, 1),
    ApiKey.DESCRIBE_CONFIGS: (0, 2),
    ApiKey.ALTER_CONFIGS: (0, 1),
    ApiKey.DESCRIBE_LOG_DIRS: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 0),
    ApiKey.CREATE_PARTITIONS: (0, 1),
    ApiKey.DELETE_GROUPS: (0, 1),
    ApiKey.ELECT_PREFERRED_LEADERS: (0, 0),
}

BROKER_VERSIONS: dict[ApiKey, tuple[int, int]] = SUPPORTED_VERSIONS | {
    ApiKey.FETCH: (0, 11),
    ApiKey.LIST_OFFSETS: (0, 5),
    ApiKey.LEADER_AND_ISR: (0, 2),
    ApiKey.STOP_REPLICA: (0, 1),
    ApiKey.UPDATE_METADATA: (0, 5),
    ApiKey.CONTROLLED_SHUTDOWN: (0, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 3),
    ApiKey.WRITE_TXN_MARKERS: (0, 0),
    ApiKey.SASL_AUTHENTICATE: (0, 1),
    ApiKey.VERIFY_TRANSACTION: (0, 0),
}


_SPANS: dict[int, tuple[int, int]] = {int(key): span for key, span in BROKER_VERSIONS.items()}


def supported(api_key: int, version: int) -> bool:
    """Whether requests of this API and version are served."""
    # Looked up by the plain number, which equals the enum's member: every request comes here, and
    # making the member would cost more than the rest.
    span = _SPANS.get(api_key)
    return span is not None and span[0] <= version <= span[1]
