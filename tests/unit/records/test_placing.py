"""`place_plain` gives the same set as `prepare_append`, or leaves the set unchanged."""

import random

import pytest

from tests.support import soak
from tests.support.random_requests import record_set
from zkbroker.errors import ZkbrokerError
from zkbroker.records import AppendPolicy, Codec, MessageSetBuilder, portable, prepare_append
from zkbroker.records.append import EVER

SOME, MANY = 500, 1_000_000
NOW = 1_700_000_000_000


@pytest.fixture(scope="module", autouse=True)
def loops():
    """Replaces no loop: the tests call both twins by name."""


def plain_set(chance):
    """Return a set that is usually plain."""
    magic = chance.randrange(3)
    producer = {}
    if magic == 2 and chance.random() < 0.4:
        producer = {
            "producer_id": chance.choice((0, 5, 2**62)),
            "producer_epoch": chance.choice((0, 7)),
            "base_sequence": chance.choice((0, 9, 2**31 - 1)),
        }
    builder = MessageSetBuilder(magic, Codec.NONE, **producer)
    for number in range(chance.choice((1, 1, 2, 3, 40))):
        timestamp = chance.choice((NOW, NOW + number, NOW - number, 0, -1)) if magic else -1
        headers = (("h", b"x"),) if magic == 2 and chance.random() < 0.2 else ()
        builder.append(
            chance.choice((None, b"", b"key")),
            chance.choice((None, b"", b"v" * chance.choice((1, 70, 9000)))),
            timestamp_ms=timestamp,
            headers=headers,
        )
    return builder.build()


def some_set(chance):
    data = bytearray(plain_set(chance) if chance.random() < 0.7 else record_set(chance))
    dice = chance.random()
    if dice < 0.15 and data:
        data[chance.randrange(min(len(data), 100))] ^= 1 << chance.randrange(8)
    elif dice < 0.2:
        data += plain_set(chance)
    elif dice < 0.25:
        del data[chance.randrange(len(data) + 1) :]
    return bytes(data)


def compare(native, seed, count):
    chance = random.Random(seed)
    taken = 0
    for _ in range(count):
        sent = some_set(chance)
        magics = chance.choice((7, 7, 7, 4, 3, 1, 0))
        limit = chance.choice((10**6, 10**6, 200, 80))
        earliest, latest = chance.choice((EVER, EVER, (NOW - 5, NOW + 5)))
        offset, epoch = chance.choice((0, 1, 2**40)), chance.choice((0, 3))
        results = []
        for twin in (native, portable):
            buffer = memoryview(bytearray(sent))
            placed = twin.place_plain(buffer, offset, limit, earliest, latest, epoch, magics)
            results.append((placed, bytes(buffer)))
        assert results[0] == results[1], sent
        placed, data = results[0]
        if placed is None:
            assert data == sent
            continue
        taken += 1
        found, newest, newest_at, magic, producer = placed
        policy = AppendPolicy(
            max_message_bytes=limit,
            max_timestamp_difference_ms=2**63 - 1 if (earliest, latest) == EVER else 5,
        )
        prepared = prepare_append(bytearray(sent), offset, policy, NOW, leader_epoch=epoch)
        assert bytes(prepared.data) == data
        assert (prepared.count, prepared.max_timestamp) == (found, newest)
        assert prepared.offset_of_max_timestamp == offset + newest_at
        assert prepared.max_magic == magic
        assert prepared.last_offset == offset + found - 1
        heads = [each for each in prepared.batches if each.producer_id >= 0]
        assert heads == ([] if producer is None else [producer])
    assert taken > count / 5


def test_placed_sets_equal_prepared_sets(native):
    compare(native, 1, SOME)


@pytest.mark.soak
def test_a_million_placed_sets_equal_prepared_sets(native):
    compare(native, 2 + soak.SEED, soak.part_of(MANY))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_plain_sets_of_each_magic_are_placed(native, magic):
    builder = MessageSetBuilder(magic)
    builder.append(b"k", b"v", timestamp_ms=NOW if magic else -1)
    for twin in (native, portable):
        data = memoryview(bytearray(builder.build()))
        placed = twin.place_plain(data, 9, 1000, *EVER, 4, 1 << magic)
        assert placed == (1, NOW if magic else -1, 0 if magic else -1, magic, None)
        assert int.from_bytes(data[:8], "big") == 9


@pytest.mark.parametrize("transactional", [True, False])
def test_transactional_batches_are_not_placed(native, transactional):
    builder = MessageSetBuilder(
        2, producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=transactional
    )
    builder.append(b"k", b"v", timestamp_ms=NOW)
    for twin in (native, portable):
        data = memoryview(bytearray(builder.build()))
        assert (twin.place_plain(data, 9, 1000, *EVER, 4, 7) is None) is transactional


def test_refused_sets_are_never_placed(native):
    chance = random.Random(5)
    for _ in range(300):
        sent = some_set(chance)
        try:
            prepare_append(bytearray(sent), 0, AppendPolicy(), NOW)
        except ZkbrokerError:
            for twin in (native, portable):
                assert twin.place_plain(memoryview(bytearray(sent)), 0, 10**6, *EVER, 0, 7) is None
