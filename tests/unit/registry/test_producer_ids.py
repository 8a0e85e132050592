"""Blocks of producer ids, on a ZooKeeper in memory."""

import json

import pytest

from tests.support.instant_session import InstantSession, new_server
from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.producer_ids import MAX_PRODUCER_ID, ProducerIds, claim_block


def test_blocks_of_two_brokers_never_meet():
    server = new_server()
    one = ProducerIds(InstantSession(server), 1)
    two = ProducerIds(InstantSession(server), 2)
    ids = [supply.next_id() for _ in range(1500) for supply in (one, two)]
    assert len(set(ids)) == 3000
    assert sorted({number // 1000 for number in ids}) == [0, 1, 2, 3]


def test_a_block_is_written_as_genuine_brokers_do():
    session = InstantSession()
    assert claim_block(session, 7) == range(1000)
    assert claim_block(session, 8) == range(1000, 2000)
    assert json.loads(session.get(paths.PRODUCER_ID_BLOCK)[0]) == {
        "version": 1,
        "broker": 8,
        "block_start": "1000",
        "block_end": "1999",
    }


def test_a_block_claimed_by_another_meanwhile_is_left_to_it():
    server = new_server()
    session, other = InstantSession(server), InstantSession(server)
    read = session.get

    def get(path, watch=None):
        try:
            return read(path, watch)
        finally:
            if not other.asked:
                claim_block(other, 2)

    session.get = get
    assert claim_block(session, 1) == range(1000, 2000)


def test_ids_end_and_a_node_of_something_else_is_named():
    session = InstantSession()
    last = json.dumps({"block_end": str(MAX_PRODUCER_ID)}).encode()
    session.create(paths.PRODUCER_ID_BLOCK, last)
    with pytest.raises(RegistryError, match="used up"):
        claim_block(session, 1)
    session.set(paths.PRODUCER_ID_BLOCK, b"x")
    with pytest.raises(RegistryError, match="holds no block"):
        claim_block(session, 1)


def test_ids_that_are_used_up_say_what_to_do():
    session = InstantSession()
    session.create(paths.PRODUCER_ID_BLOCK, b'{"block_end":"%d"}' % MAX_PRODUCER_ID)
    with pytest.raises(RegistryError, match="delete that node and restart"):
        claim_block(session, 1)
