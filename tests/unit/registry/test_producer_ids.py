"""Brokers claim blocks of producer ids."""

import json

import pytest

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.producer_ids import MAX_PRODUCER_ID, ProducerIds, claim_block


def test_producer_id_blocks_do_not_overlap(session, other):
    one, two = ProducerIds(session, 1), ProducerIds(other, 2)
    ids = [supply.next_id() for _ in range(1500) for supply in (one, two)]
    assert len(set(ids)) == 3000
    assert sorted({number // 1000 for number in ids}) == [0, 1, 2, 3]


def test_producer_id_block_has_genuine_form(session):
    assert claim_block(session, 7) == range(1000)
    assert claim_block(session, 8) == range(1000, 2000)
    assert json.loads(session.get(paths.PRODUCER_ID_BLOCK)[0]) == {
        "version": 1,
        "broker": 8,
        "block_start": "1000",
        "block_end": "1999",
    }


def test_concurrently_claimed_block_is_skipped(session, other):
    read = session.get

    def get(path, watch=None):
        try:
            return read(path, watch)
        finally:
            if not other.asked:
                claim_block(other, 2)

    session.get = get
    assert claim_block(session, 1) == range(1000, 2000)


def test_exhausted_ids_and_invalid_node_are_refused(session):
    last = json.dumps({"block_end": str(MAX_PRODUCER_ID)}).encode()
    session.create(paths.PRODUCER_ID_BLOCK, last)
    with pytest.raises(RegistryError, match=r"used up.*delete that node and restart"):
        claim_block(session, 1)
    session.set(paths.PRODUCER_ID_BLOCK, b"x")
    with pytest.raises(RegistryError, match="holds no block"):
        claim_block(session, 1)
