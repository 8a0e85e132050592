"""What brokers that do not answer ApiVersions understand.

Before 0.10.0 a broker closes the connection when it does not know a request. A client then knows
only what it asked and that the peer closed, and goes on with the versions of that generation.
"""

from collections.abc import Mapping

from zkbroker.protocol import ApiKey

_V0_8_2 = {
    ApiKey.PRODUCE: (0, 0),
    ApiKey.FETCH: (0, 0),
    ApiKey.LIST_OFFSETS: (0, 0),
    ApiKey.METADATA: (0, 0),
    ApiKey.OFFSET_COMMIT: (0, 1),
    ApiKey.OFFSET_FETCH: (0, 1),
    ApiKey.FIND_COORDINATOR: (0, 0),
}
_V0_9 = _V0_8_2 | {
    ApiKey.PRODUCE: (0, 1),
    ApiKey.FETCH: (0, 1),
    ApiKey.OFFSET_COMMIT: (0, 2),
    ApiKey.JOIN_GROUP: (0, 0),
    ApiKey.HEARTBEAT: (0, 0),
    ApiKey.LEAVE_GROUP: (0, 0),
    ApiKey.SYNC_GROUP: (0, 0),
    ApiKey.DESCRIBE_GROUPS: (0, 0),
    ApiKey.LIST_GROUPS: (0, 0),
}
_V0_10_0 = _V0_9 | {
    ApiKey.PRODUCE: (0, 2),
    ApiKey.FETCH: (0, 2),
    ApiKey.METADATA: (0, 1),
    ApiKey.API_VERSIONS: (0, 0),
}

GUESSES: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "0.8.2": {int(key): span for key, span in _V0_8_2.items()},
    "0.9": {int(key): span for key, span in _V0_9.items()},
    "0.10.0": {int(key): span for key, span in _V0_10_0.items()},
}
"""Generation → API key → (lowest, highest) version."""
