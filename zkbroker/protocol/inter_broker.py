"""The versions of requests between brokers, by `inter.broker.protocol.version`.

Invariant: brokers never negotiate; a request is sent in the version of this table or not at all.
"""

from collections.abc import Mapping

from zkbroker.protocol.api import ApiKey

_V0_8_2 = {
    ApiKey.FETCH: 0,
    ApiKey.LIST_OFFSETS: 0,
    ApiKey.LEADER_AND_ISR: 0,
    ApiKey.STOP_REPLICA: 0,
    ApiKey.UPDATE_METADATA: 0,
    ApiKey.CONTROLLED_SHUTDOWN: 0,
}
_V2_1 = {
    ApiKey.FETCH: 10,
    ApiKey.LIST_OFFSETS: 4,
    ApiKey.LEADER_AND_ISR: 1,
    ApiKey.STOP_REPLICA: 0,
    ApiKey.UPDATE_METADATA: 4,
    ApiKey.CONTROLLED_SHUTDOWN: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
}
_V2_2 = _V2_1 | {
    ApiKey.LIST_OFFSETS: 5,
    ApiKey.LEADER_AND_ISR: 2,
    ApiKey.STOP_REPLICA: 1,
    ApiKey.UPDATE_METADATA: 5,
    ApiKey.CONTROLLED_SHUTDOWN: 2,
}
_V2_3 = _V2_2 | {ApiKey.FETCH: 11, ApiKey.OFFSET_FOR_LEADER_EPOCH: 3}

INTER_BROKER_VERSIONS: Mapping[str, Mapping[ApiKey, int]] = {
    "0.8.2": _V0_8_2,
    "2.1": _V2_1,
    "2.2": _V2_2,
    "2.3": _V2_3,
}
"""Level -> API -> version in which brokers send it. At 0.8.2 there is no OffsetForLeaderEpoch."""
