"""Producer ids, unique in the cluster: claimed in blocks of 1000.

    /latest_producer_id_block  {"version":1,"broker":0,"block_start":"0","block_end":"999"}

Invariant: a block is claimed by a write under the node version that was read. A broker whose write
is refused reads again, and one whose answer is lost does not use the block, so that a block may be
wasted but is never claimed twice.
"""

import logging
from collections import deque

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json, write_json
from zkbroker.registry.optional_nodes import read_node
from zkbroker.zookeeper.errors import BadVersion, NodeExists
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

BLOCK_SIZE = 1000
MAX_PRODUCER_ID = 2**63 - 1


def claim_block(session: ZkSession, broker_id: int) -> range:
    """Claim the next block of producer ids.

    Raises:
        RegistryError: ZooKeeper does not answer, or holds no block.
    """
    while True:
        start, version = _read_next(session)
        if start + BLOCK_SIZE - 1 > MAX_PRODUCER_ID:
            raise RegistryError(
                f"{paths.PRODUCER_ID_BLOCK} says that the producer ids are used up; "
                "delete that node and restart each broker: it continues above the ids in its logs"
            )
        block = range(start, start + BLOCK_SIZE)
        if _write(session, broker_id, block, version):
            return block


def _read_next(session: ZkSession) -> tuple[int, int | None]:
    found = read_node(session, paths.PRODUCER_ID_BLOCK)
    if found is None:
        return 0, None
    data, stat = found
    try:
        return int(read_json(data)["block_end"]) + 1, stat.version
    except (ValueError, TypeError, KeyError) as error:
        raise RegistryError(f"{paths.PRODUCER_ID_BLOCK} holds no block: {data[:100]!r}") from error


def raise_above(session: ZkSession, broker_id: int, producer_id: int) -> None:
    """Make sure that all later producer ids are above a given one.

    Logs from another cluster hold ids that this ZooKeeper never allocated. If a producer got one
    of them, its first batches would be taken for duplicates.

    Args:
        session: a started session.
        broker_id: written into the block, as information.
        producer_id: the highest id in the logs; -1 for none.

    Raises:
        RegistryError: ZooKeeper does not answer, or holds no block.
    """
    while producer_id >= 0:
        start, version = _read_next(session)
        if start > producer_id:
            return
        if _write(session, broker_id, range(start, producer_id + 1), version):
            logger.info("producer ids raised block_end=%d", producer_id)
            return


def _write(session: ZkSession, broker_id: int, block: range, version: int | None) -> bool:
    """Write a block under the version that was read; False if another broker wrote since."""
    node = {
        "version": 1,
        "broker": broker_id,
        "block_start": str(block[0]),
        "block_end": str(block[-1]),
    }
    data = write_json(node)
    try:
        if version is None:
            session.create(paths.PRODUCER_ID_BLOCK, data)
        else:
            session.set(paths.PRODUCER_ID_BLOCK, data, version)
    except (NodeExists, BadVersion):
        return False
    return True


class ProducerIds:
    """A broker's supply of producer ids; safe to use from many tasks.

    Args:
        session: a started session.
        broker_id: written into the blocks, as information.
    """

    def __init__(self, session: ZkSession, broker_id: int) -> None:
        self._session = session
        self._broker_id = broker_id
        self._lock = session.runtime.lock()
        self._blocks: deque[range] = deque()

    def next_id(self) -> int:
        """Return an id that no other producer has.

        Raises:
            RegistryError: a new block was needed and ZooKeeper does not answer.
        """
        while True:
            with self._lock:
                if self._blocks:
                    block = self._blocks.popleft()
                    if len(block) > 1:
                        self._blocks.appendleft(block[1:])
                    return block[0]
            # Claimed without the lock; if two tasks do so at once, both blocks are used.
            claimed = claim_block(self._session, self._broker_id)
            with self._lock:
                self._blocks.append(claimed)
