"""The owner loop of a member's offsets: reads and commits, one after the other.

    auto commit tick, commit_offsets(), rebalance, shutdown --> [requests] --> storage(s)

Invariant: only this task speaks to the storages, so that a commit never races another one of the
same member, and no lock is held over the network. What did not change is not written again.

Storages: ZooKeeper, brokers, or both while a group migrates. With both, a partition starts at the
larger of the two offsets, so that a member that reads only one of them may be mixed in.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from zkbroker.client.group_offsets import CoordinatorOffsets
from zkbroker.consumer.streams.zookeeper_offsets import ZooKeeperOffsets
from zkbroker.errors import ClientError, ProtocolError, RegistryError
from zkbroker.runtime import QueueEmpty, Runtime
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_MAX_REQUESTS = 1000
_NEVER_S = 3600.0


class _Request:
    def __init__(self, runtime: Runtime, action: Callable[[], Any]) -> None:
        self.action = action
        self.done = runtime.event()
        self.result: Any = None
        self.error: Exception | None = None


class OffsetKeeper:
    """Reads and commits the offsets of one member.

    Args:
        zookeeper: the storage in ZooKeeper, None when it is not used.
        kafka: the storage in brokers, None when it is not used.
        runtime: the connector's.
        interval_ms: time between two automatic commits, None for none.
        positions: what an automatic commit writes.
    """

    def __init__(
        self,
        zookeeper: ZooKeeperOffsets | None,
        kafka: CoordinatorOffsets | None,
        *,
        runtime: Runtime,
        interval_ms: int | None,
        positions: Callable[[], Mapping[PartitionKey, int]],
    ) -> None:
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._runtime = runtime
        self._interval_s = None if interval_ms is None else interval_ms / 1000
        self._positions = positions
        self._committed: dict[PartitionKey, int] = {}
        self._requests = runtime.queue(_MAX_REQUESTS)
        self._closed = False
        self._task = runtime.spawn(self._run, name="offset-keeper")

    # -- for other tasks

    def read(
        self, partitions: Iterable[PartitionKey], timeout_s: float
    ) -> dict[PartitionKey, int | None]:
        """Return where partitions that were just claimed start, None for no offset.

        Raises:
            RegistryError, ProtocolError: a storage did not answer.
            ClientError: nor did it within `timeout_s`.
        """
        keys = list(partitions)
        found: dict[PartitionKey, int | None] = self._ask(lambda: self._read(keys), timeout_s)
        return found

    def commit(self, offsets: Mapping[PartitionKey, int], timeout_s: float) -> set[PartitionKey]:
        """Commit next offsets of owned partitions.

        Returns:
            The partitions that were refused, since another member owns them.

        Raises:
            RegistryError, ProtocolError: a storage refused or did not answer.
            ClientError: nor did it within `timeout_s`.
        """
        wanted = dict(offsets)
        refused: set[PartitionKey] = self._ask(lambda: self._commit(wanted), timeout_s)
        return refused

    def close(self, timeout_s: float) -> bool:
        """End the task after what was asked of it; False when it still runs."""
        self._closed = True
        self._requests.put(None)
        return self._task.join(timeout_s)

    def _ask(self, action: Callable[[], Any], timeout_s: float) -> Any:
        if self._closed:
            raise ClientError("the consumer is shut down")
        request = _Request(self._runtime, action)
        self._requests.put(request)
        if not request.done.wait(timeout_s):
            raise ClientError(f"the offset storage did not answer within {timeout_s:g} s")
        if request.error is not None:
            raise request.error
        return request.result

    # -- the task

    def _run(self) -> None:
        next_commit = time.monotonic() + (self._interval_s or _NEVER_S)
        while True:
            try:
                request = self._requests.get(max(0.0, next_commit - time.monotonic()))
            except QueueEmpty:
                if self._interval_s is not None:
                    self._auto_commit()
                next_commit = time.monotonic() + (self._interval_s or _NEVER_S)
                continue
            if request is None:
                return
            try:
                request.result = request.action()
            except Exception as error:  # noqa: BLE001 - raised where it was asked for
                request.error = error
            request.done.set()

    def _auto_commit(self) -> None:
        try:
            self._commit(self._positions())
        except (RegistryError, ProtocolError, ClientError) as error:
            logger.warning("automatic commit failed, tried again later error=%s", error)
        except Exception:
            # A fault of this library: tell it whole, and go on committing.
            logger.exception("automatic commit failed")

    def _read(self, keys: list[PartitionKey]) -> dict[PartitionKey, int | None]:
        self._committed.clear()
        found: dict[PartitionKey, int | None] = dict.fromkeys(keys)
        if self._zookeeper is not None:
            self._zookeeper.forget()
            found.update(self._zookeeper.read(keys))
        if self._kafka is not None:
            kept = found
            found = self._kafka.read(keys)
            if self._zookeeper is not None:
                found = {key: _larger(kept[key], found.get(key)) for key in keys}
        self._committed = {key: offset for key, offset in found.items() if offset is not None}
        return found

    def _commit(self, offsets: Mapping[PartitionKey, int]) -> set[PartitionKey]:
        changed = {
            key: offset for key, offset in offsets.items() if self._committed.get(key) != offset
        }
        refused: set[PartitionKey] = set()
        if not changed:
            return refused
        if self._zookeeper is not None:
            # First, since it knows who owns what: an offset it refuses goes nowhere.
            refused = self._zookeeper.commit(changed)
            changed = {key: offset for key, offset in changed.items() if key not in refused}
        if self._kafka is not None:
            self._kafka.commit(changed)
        self._committed.update(changed)
        logger.debug("offsets committed partitions=%d refused=%d", len(changed), len(refused))
        return refused


def _larger(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)
