"""Plain requests: the Python and C twins read and answer as the codec does."""

import random
from typing import Any

import pytest

from tests.support import soak
from tests.support.random_requests import random_request
from zkbroker.protocol import (
    ApiKey,
    RequestHeader,
    decode_request,
    encode_request,
    encode_response,
)
from zkbroker.protocol.errors import MalformedFrame, UnsupportedRequest
from zkbroker.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    ProduceResponse,
)
from zkbroker.protocol.messages.fetch import (
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponseAbortedTransaction,
    FetchResponsePartition,
    FetchResponseTopic,
)
from zkbroker.protocol.messages.produce import (
    ProduceRequestPartition,
    ProduceRequestTopic,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from zkbroker.protocol.plain import MAX_ITEMS, portable
from zkbroker.protocol.schema import wire_fields

SOME, MANY = 1000, 1_000_000
PRODUCED = ("partition", "error_code", "base_offset", "log_append_time_ms", "log_start_offset")


@pytest.fixture(scope="module")
def native() -> Any:
    return pytest.importorskip("zkbroker.protocol._speedups", reason="the C twin was not built")


@pytest.fixture(scope="module", params=["portable", "native"])
def twin(request: pytest.FixtureRequest) -> Any:
    return portable if request.param == "portable" else request.getfixturevalue("native")


def as_bytes(plain: Any) -> Any:
    """Return a plain request with its record sets as bytes."""
    if plain is None or plain[0] != 0:
        return plain
    return (*plain[:-1], [(t, [(p, bytes(r)) for p, r in rows]) for t, rows in plain[-1]])


def by_codec(frame: memoryview) -> Any:
    """Return the codec's request in the form of a plain one; None where it refuses."""
    try:
        header, request = decode_request(frame)
    except (MalformedFrame, UnsupportedRequest):
        return None
    head = header.api_key, header.api_version, header.correlation_id, header.client_id
    if header.api_key == ApiKey.PRODUCE:
        topics: list[Any] = [
            (
                topic.topic,
                [(p.partition, None if p.records is None else bytes(p.records)) for p in rows],
            )
            for topic in request.topics
            for rows in [topic.partitions]
        ]
        return *head, request.transactional_id, request.acks, request.timeout_ms, topics
    topics = [
        (
            topic.topic,
            [
                (
                    *(p.partition, p.current_leader_epoch, p.fetch_offset),
                    *(p.log_start_offset, p.max_bytes),
                )
                for p in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return (
        *head,
        *(request.replica_id, request.max_wait_ms, request.min_bytes, request.max_bytes),
        *(request.isolation_level, request.session_id, request.session_epoch, topics),
    )


def frames(seed: int, count: int) -> Any:
    """Yield requests of both APIs, each unchanged and then with random changes."""
    chance = random.Random(seed)
    for number in range(count):
        if number % 20 == 0:
            made = random_request(chance, ApiKey.PRODUCE, ApiKey.FETCH)[4:]
            while len(made) > 50_000:
                made = random_request(chance, ApiKey.PRODUCE, ApiKey.FETCH)[4:]
        frame = bytearray(made)
        for _ in range(chance.choice((1, 1, 3)) if number % 20 else 0):
            at = chance.randrange(min(len(frame), 120))
            kind = chance.randrange(5)
            if kind == 0:
                frame[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            elif kind == 1:
                frame[at] ^= 1 << chance.randrange(8)
            elif kind == 2:
                length = chance.choice((0, 1, -1, 2**31 - 1, 70))
                frame[at : at + 4] = length.to_bytes(4, "big", signed=True)
            elif kind == 3:
                frame[3:4] = bytes([chance.randrange(portable.LAST_FETCH + 2)])
            else:
                del frame[at:]
            if not frame:
                break
        yield memoryview(frame)


def compare_reading(native: Any, seed: int, count: int) -> None:
    plain = 0
    for frame in frames(seed, count):
        found = portable.read_plain(frame, MAX_ITEMS)
        assert as_bytes(native.read_plain(frame, MAX_ITEMS)) == as_bytes(found), bytes(frame)
        if found is not None:
            plain += 1
            assert as_bytes(found) == by_codec(frame), bytes(frame)
    assert plain > count / 20


def test_twins_read_like_codec(native: Any) -> None:
    compare_reading(native, 1, SOME)


@pytest.mark.soak
def test_twins_read_a_million_frames_like_codec(native: Any) -> None:
    compare_reading(native, 2 + soak.SEED, soak.part_of(MANY))


def numbered(message: type[Any]) -> Any:
    """Return a part of a request whose numbers are all different."""
    return message(**{field.name: at for at, field in enumerate(wire_fields(message), 11)})


LAST = [(ApiKey.PRODUCE, portable.LAST_PRODUCE), (ApiKey.FETCH, portable.LAST_FETCH)]


@pytest.mark.parametrize(
    ("key", "version"), [(key, version) for key, last in LAST for version in range(last + 1)]
)
def test_every_version_is_read_field_by_field(twin: Any, key: ApiKey, version: int) -> None:
    fetched = FetchRequestTopic("t", [numbered(FetchRequestPartition)])
    fetch = FetchRequest(
        max_wait_ms=1, min_bytes=2, max_bytes=3, isolation_level=1, topics=[fetched], rack_id="r"
    )
    produced = ProduceRequestTopic("t", [ProduceRequestPartition(5, b"records")])
    produce = ProduceRequest(acks=1, timeout_ms=2, topics=[produced])
    request = fetch if key == ApiKey.FETCH else produce
    parts = encode_request(RequestHeader(key, version, 7, "c"), request)
    frame = memoryview(b"".join(parts)[4:])  # type: ignore[arg-type]
    assert as_bytes(twin.read_plain(frame, MAX_ITEMS)) == by_codec(frame) is not None


def test_truncated_frames_are_refused(twin: Any) -> None:
    chance = random.Random(3)
    for key in (ApiKey.PRODUCE, ApiKey.FETCH):
        for _ in range(40):
            frame = memoryview(bytearray(random_request(chance, key)[4:]))
            if len(frame) < 2000:
                for end in range(len(frame)):
                    found = twin.read_plain(frame[:end], MAX_ITEMS)
                    assert found is None or by_codec(frame[:end]) is not None


def test_request_above_item_limit_is_not_plain(twin: Any) -> None:
    chance = random.Random(4)
    for _ in range(200):
        frame = memoryview(bytearray(random_request(chance, ApiKey.FETCH)[4:]))
        found = twin.read_plain(frame, MAX_ITEMS)
        if found is not None:
            items = sum(1 + len(rows) for _, rows in found[-1])
            assert twin.read_plain(frame, items) == found
            assert twin.read_plain(frame, items - 1) is None


def numbers(chance: random.Random, *bits: int) -> tuple[int, ...]:
    return tuple(
        chance.choice((0, 1, -1, 2 ** (size - 1) - 1, -(2 ** (size - 1)))) for size in bits
    )


def names(chance: random.Random) -> list[str]:
    return [chance.choice(("t", "é", "n" * 249, "")) for _ in range(chance.randint(1, 3))]


@pytest.mark.parametrize("version", range(portable.LAST_PRODUCE + 1))
def test_produce_responses_equal_those_of_codec(twin: Any, version: int) -> None:
    chance = random.Random(version)
    for _ in range(30):
        answers = [
            (name, [numbers(chance, 32, 16, 64, 64, 64) for _ in range(chance.randint(0, 30))])
            for name in names(chance)
        ]
        response = ProduceResponse([])
        for name, rows in answers:
            fields = [dict(zip(PRODUCED, row, strict=True)) for row in rows]
            partitions = [ProduceResponsePartition(**each) for each in fields]
            response.topics.append(ProduceResponseTopic(name, partitions))
        expected = b"".join(encode_response(77, response, version))  # type: ignore[arg-type]
        assert b"".join(twin.produce_answer(version, 77, answers)) == expected


@pytest.mark.parametrize("version", range(portable.LAST_FETCH + 1))
def test_fetch_responses_equal_those_of_codec(twin: Any, version: int) -> None:
    chance = random.Random(version)
    for _ in range(30):
        answers: list[Any] = []
        response = FetchResponse(session_id=9, topics=[])
        sent = []
        for name in names(chance):
            rows = []
            partitions = []
            for _ in range(chance.randint(1, 20)):
                number, error, mark, stable, start = numbers(chance, 32, 16, 64, 64, 64)
                aborted = chance.choice((None, [], [(1, 2)], [(2**63 - 1, 0), (5, -1)]))
                records = chance.randbytes(chance.choice((0, 1, 30)))
                rows.append((number, error, mark, stable, start, aborted, len(records), records))
                sent.append(records)
                partitions.append(
                    FetchResponsePartition(
                        partition=number,
                        error_code=error,
                        high_watermark=mark,
                        last_stable_offset=stable,
                        log_start_offset=start,
                        aborted_transactions=None
                        if aborted is None
                        else [FetchResponseAbortedTransaction(*each) for each in aborted],
                        records=records,
                    )
                )
            answers.append((name, rows))
            response.topics.append(FetchResponseTopic(name, partitions))
        if chance.random() < 0.2:
            answers.append(("empty", []))
            response.topics.append(FetchResponseTopic("empty", []))
            sent.append(b"")
        heads = twin.fetch_answer(version, 78, 9, answers)
        found = b"".join(part for pair in zip(heads, sent, strict=True) for part in pair)
        assert found == b"".join(encode_response(78, response, version))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "row", [(2**31, 0, 0, 0, 0), (0, 2**15, 0, 0, 0), (0, 0, 2**63, 0, 0), (0, 0, -(2**64), 0, 0)]
)
def test_number_out_of_range_is_refused(twin: Any, row: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        twin.produce_answer(7, 1, [("t", [row])])


def test_topic_name_above_limit_is_refused(twin: Any) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        twin.produce_answer(7, 1, [("n" * 2**15, [(0, 0, 0, 0, 0)])])
