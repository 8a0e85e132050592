"""Producer ids, unique in the cluster: claimed in blocks of 1000.

    /latest_producer_id_block  {"version":1,"broker":0,"block_start":"0","block_end":"999"}

Invariant: a block is claimed by a write on the condition of the node version that was read; whose
write is refused, or whose answer is lost, reads again, so that a block may be wasted but is never
claimed twice.
"""

import json
import logging
from collections import deque

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.registry.node_json import read_json
from zkbroker.zookeeper.errors import BadVersion, NodeExists, NoNode
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
                "delete that node and restart each broker: it goes on above the ids in its logs"
            )
        data = _encode(broker_id, start, start + BLOCK_SIZE - 1)
        try:
            if version is None:
                session.create(paths.PRODUCER_ID_BLOCK, data)
            else:
                session.set(paths.PRODUCER_ID_BLOCK, data, version)
        except (NodeExists, BadVersion):
            continue
        return range(start, start + BLOCK_SIZE)


def _read_next(session: ZkSession) -> tuple[int, int | None]:
    try:
        data, stat = session.get(paths.PRODUCER_ID_BLOCK)
    except NoNode:
        return 0, None
    try:
        return int(read_json(data)["block_end"]) + 1, stat.version
    except (ValueError, TypeError, KeyError) as error:
        raise RegistryError(f"{paths.PRODUCER_ID_BLOCK} holds no block: {data[:100]!r}") from error


def raise_above(session: ZkSession, broker_id: int, producer_id: int) -> None:
    """See to it that only ids above one are given out from now on.

    Logs that come from elsewhere know ids that this ZooKeeper never gave out; a producer that got
    one of them would have its first batches taken for repeated ones.

    Args:
        session: a started session.
        broker_id: written into the block, as information.
        producer_id: the highest that is known; -1 for none.

    Raises:
        RegistryError: ZooKeeper does not answer, or holds no block.
    """
    while producer_id >= 0:
        start, version = _read_next(session)
        if start > producer_id:
            return
        data = _encode(broker_id, start, producer_id)
        try:
            if version is None:
                session.create(paths.PRODUCER_ID_BLOCK, data)
            else:
                session.set(paths.PRODUCER_ID_BLOCK, data, version)
        except (NodeExists, BadVersion):
            continue
        logger.info("producer ids raised block_end=%d", producer_id)
        return


def _encode(broker_id: int, start: int, end: int) -> bytes:
    block = {
        "version": 1,
        "broker": broker_id,
        "block_start": str(start),
        "block_end": str(end),
    }
    return json.dumps(block, separators=(",", ":")).encode()


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
            # Asked for without the lock; when two tasks do, both blocks are used.
            claimed = claim_block(self._session, self._broker_id)
            with self._lock:
                self._blocks.append(claimed)
