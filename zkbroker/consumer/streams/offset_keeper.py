"""The owner loop of a member's offsets: reads and commits, one after the other.

    auto commit tick, commit_offsets(), rebalance, shutdown --> [requests] --> storage(s)

Invariants: only this task uses the storages, so that two commits of a member never race, and no
lock is held over the network. An offset that a storage has is not written to it again. A request
that has not begun when its caller gives up is never made: the partitions may be another member's by
then, and brokers would put its offset in the place of a newer one.

Storages: ZooKeeper, brokers, or both while a group migrates. With both, a partition starts at the
larger of the two offsets, so that members that read only one storage may take part; a claim writes
that offset to the other storage, even where no message follows. With brokers alone, a partition
without an offset there starts at that of ZooKeeper.
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
        self.given_up = False
        self.result: Any = None
        self.error: Exception | None = None


class OffsetKeeper:
    """Reads and commits the offsets of one member.

    Args:
        zookeeper: the storage in ZooKeeper, None when commits do not go there.
        kafka: the storage in brokers, None when it is not used.
        earlier: the storage in ZooKeeper to read where the brokers have no offset; None where
            `zookeeper` is given.
        runtime: the connector's.
        interval_ms: time between two automatic commits, None for none.
        positions: returns the offsets of an automatic commit.
    """

    def __init__(
        self,
        zookeeper: ZooKeeperOffsets | None,
        kafka: CoordinatorOffsets | None,
        *,
        runtime: Runtime,
        interval_ms: int | None,
        positions: Callable[[], Mapping[PartitionKey, int]],
        earlier: ZooKeeperOffsets | None = None,
    ) -> None:
        self._earlier = earlier
        self._zookeeper = zookeeper
        self._kafka = kafka
        self._runtime = runtime
        self._interval_s = None if interval_ms is None else interval_ms / 1000
        self._positions = positions
        self._in_zookeeper: dict[PartitionKey, int] = {}
        self._in_kafka: dict[PartitionKey, int] = {}
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
        """End the task after the requests before; False when it still runs."""
        self._closed = True
        self._requests.put(None)
        return self._task.join(timeout_s)

    def _ask(self, action: Callable[[], Any], timeout_s: float) -> Any:
        if self._closed:
            raise ClientError("the consumer is shut down")
        request = _Request(self._runtime, action)
        self._requests.put(request)
        if not request.done.wait(timeout_s):
            request.given_up = True
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
            if request.given_up:
                continue
            try:
                request.result = request.action()
            except Exception as error:  # noqa: BLE001 - raised to the caller that asked
                request.error = error
            request.done.set()

    def _auto_commit(self) -> None:
        try:
            self._commit(self._positions())
        except (RegistryError, ProtocolError, ClientError) as error:
            logger.warning("automatic commit failed, tried again later error=%s", error)
        except Exception:
            # A defect of this library: log the traceback, and keep committing.
            logger.exception("automatic commit failed")

    def _read(self, keys: list[PartitionKey]) -> dict[PartitionKey, int | None]:
        found: dict[PartitionKey, int | None] = dict.fromkeys(keys)
        if self._zookeeper is not None:
            self._zookeeper.forget()
            found = self._zookeeper.read(keys)
            self._in_zookeeper = _present(found)
        if self._kafka is not None:
            kept = self._kafka.read(keys)
            self._in_kafka = _present(kept)
            found = {key: _larger(found[key], kept.get(key)) for key in keys}
            self._fill_from_zookeeper(found)
        self._write_to_both(_present(found))
        return found

    def _fill_from_zookeeper(self, found: dict[PartitionKey, int | None]) -> None:
        """Start where ZooKeeper has an offset and the brokers have none."""
        absent = [key for key, offset in found.items() if offset is None]
        if self._earlier is None or not absent:
            return
        for key, offset in _present(self._earlier.read(absent)).items():
            logger.warning(
                "no offset in brokers, taken from ZooKeeper topic=%s partition=%d offset=%d",
                *key,
                offset,
            )
            found[key] = offset

    def _write_to_both(self, found: Mapping[PartitionKey, int]) -> None:
        """Write each offset to the storage that has a smaller one, so that either is enough."""
        try:
            self._commit(found)
        except (RegistryError, ProtocolError, ClientError) as error:
            # The next commits of this ownership write it again.
            logger.warning("offsets not in both storages yet error=%s", error)

    def _commit(self, offsets: Mapping[PartitionKey, int]) -> set[PartitionKey]:
        refused: set[PartitionKey] = set()
        if self._zookeeper is not None:
            changed = _changed(offsets, self._in_zookeeper)
            if changed:
                # First, since ZooKeeper knows the owners: an offset that it refuses is not stored.
                refused = self._zookeeper.commit(changed)
            offsets = {key: offset for key, offset in offsets.items() if key not in refused}
            self._in_zookeeper.update(offsets)
        if self._kafka is not None:
            changed = _changed(offsets, self._in_kafka)
            if changed:
                self._kafka.commit(changed)
            self._in_kafka.update(offsets)
        logger.debug("offsets committed partitions=%d refused=%d", len(offsets), len(refused))
        return refused


def _present(found: Mapping[PartitionKey, int | None]) -> dict[PartitionKey, int]:
    return {key: offset for key, offset in found.items() if offset is not None}


def _changed(
    offsets: Mapping[PartitionKey, int], stored: Mapping[PartitionKey, int]
) -> dict[PartitionKey, int]:
    return {key: offset for key, offset in offsets.items() if stored.get(key) != offset}


def _larger(left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return right if left is None else left
    return max(left, right)
