"""Random requests made from the wire metadata: well-formed, with unusual values."""

import random
from typing import Any

from zkbroker.protocol import MESSAGES, SUPPORTED_VERSIONS, ApiKey, RequestHeader, encode_request
from zkbroker.protocol.api import BROKER_VERSIONS
from zkbroker.protocol.schema import Kind, wire_fields
from zkbroker.records import Codec, encode_message_set
from zkbroker.records.entries import seal_batch

NAMES = ("t", "u", "", ".", "..", "a/b", "x y", "é", "\x1b]0;x\x07\n", "n" * 249, "n" * 250)
OFTEN = (ApiKey.PRODUCE, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT)
LONG_NAME = "long" * 8000
# Large values of these are valid, and mean minutes of work.
SMALL = {"num_partitions", "count", "max_wait_ms", "timeout_ms"}
# The values of most requests, so that they reach the handlers and the log.
LIKELY = {"partition": 0, "generation_id": -1, "resource_type": 2, "acks": 1, "fetch_offset": 0}
LIKELY_TEXT = {"topic": "t", "member_id": "", "resource_name": "t"}
BITS = {Kind.INT8: 8, Kind.INT16: 16, Kind.INT32: 32, Kind.INT64: 64}


def random_request(chance: random.Random, *keys: ApiKey) -> bytes:
    """A whole frame, with its length: any API, any version of it that is served."""
    key = chance.choice(keys or [*SUPPORTED_VERSIONS, *OFTEN])
    low, high = (BROKER_VERSIONS if keys else SUPPORTED_VERSIONS)[key]
    version = chance.randint(low, high)
    request = _message(MESSAGES[key][0], version, chance)
    if key == ApiKey.PRODUCE:
        request.acks = chance.choice([0, 1, -1, 7])
    client_id = chance.choice(["odd", None, "", "é\n", "c" * 300])
    header = RequestHeader(key, version, chance.getrandbits(31), client_id)
    frame = b"".join(encode_request(header, request))  # type: ignore[arg-type]
    if chance.random() < 0.05:
        frame = _damaged(frame, chance)
    return frame


def _message(message: type[Any], version: int, chance: random.Random) -> Any:
    made = message()
    for field in wire_fields(message):
        if field.wire.present(version):
            setattr(made, field.name, _value(field.name, field.wire, version, chance))
    return made


def _value(name: str, wire: Any, version: int, chance: random.Random) -> Any:
    if wire.allows_null(version) and (chance.random() < 0.2 or name == "transactional_id"):
        return None
    if wire.kind is not Kind.ARRAY:
        return _scalar(name, wire.kind, chance)
    count = chance.choice([0, 1, 1, 1, 2, 3]) if chance.random() < 0.98 else 300
    if isinstance(wire.item, Kind):
        return [_scalar(name, wire.item, chance) for _ in range(count)]
    return [_message(wire.item, version, chance) for _ in range(count)]


def _scalar(name: str, kind: Kind, chance: random.Random) -> Any:
    if kind in BITS:
        if name in LIKELY and chance.random() < 0.7:
            return LIKELY[name]
        edge = 2 ** (BITS[kind] - 1)
        if name in SMALL:
            return chance.choice([-1, 0, 1, 2, 3])
        return chance.choice([0, 0, 1, 2, -1, -2, 100, edge - 1, edge - 1, -edge])
    if kind is Kind.BOOLEAN:
        return chance.random() < 0.5
    if kind is Kind.STRING:
        if name in LIKELY_TEXT and chance.random() < 0.7:
            return LIKELY_TEXT[name]
        return chance.choice(NAMES) if chance.random() < 0.99 else LONG_NAME
    if kind is Kind.RAW:
        return chance.randbytes(chance.choice([0, 1, 20, 3000]))
    return record_set(chance)


def record_set(chance: random.Random) -> bytes:
    """A record set of any magic and codec; some have a wrong field under a right checksum."""
    magic = chance.randrange(3)
    codecs = [codec for codec in Codec if codec.first_magic <= magic]
    count = chance.choice([1, 2, 5, 500])
    records = [(chance.choice([None, b"k"]), b"v" * 20, 1000, ()) for _ in range(count)]
    data = bytearray(encode_message_set(records, magic=magic, codec=chance.choice(codecs)))
    if magic == 2 and chance.random() < 0.5:
        at, size = chance.choice([(21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (57, 4)])
        data[at : at + size] = chance.randbytes(size)
        seal_batch(data)
    elif chance.random() < 0.2:
        return _damaged(bytes(data), chance, first=0)
    return bytes(data)


def _damaged(data: bytes, chance: random.Random, first: int = 4) -> bytes:
    damaged = bytearray(data)
    if len(damaged) > first:
        at = chance.randrange(first, len(damaged))
        damaged[at] ^= 1 << chance.randrange(8)
    return bytes(damaged)
