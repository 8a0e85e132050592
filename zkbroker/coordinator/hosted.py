"""The partitions of an internal topic that this broker hosts for one of its coordinators.

    led here (14) --host--> loading (14) --read--> served --release--> gone (16)

Invariants: a key is coordinated only while its partition is hosted and loaded. A partition that
cannot be read stays "loading": answers from a part of it would lose the state in the rest. The load
is repeated, since the failure may pass: no free file descriptor, for example. The result of a load
counts only if the partition is still hosted when the load ends.
"""

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from zkbroker.coordinator.stored_log import key_partition
from zkbroker.errors import ErrorCode, NotLeaderForPartition, ProtocolError, StorageError
from zkbroker.runtime import Runtime

logger = logging.getLogger(__name__)

_RETRY_S = 1.0
_RETRY_MAX_S = 60.0


class HostedPartition:
    """One partition; each coordinator adds its own state."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.loaded = False


P = TypeVar("P", bound=HostedPartition)


class HostedPartitions(Generic[P]):
    """All partitions of one topic that are hosted here.

    Args:
        topic: the internal topic.
        read: reads a partition from its log, in a separate task; returns how many entries it
            found. It may wait, must not change the served state, and is called again if it failed.
        serve: begins to serve the state that was read; it does not wait.
        runtime: for the tasks that load.
        partition_count: how many partitions the topic has.
        led_here: returns whether this broker leads a partition, as far as the metadata says. Other
            brokers may send clients here as soon as it does, a moment before `host`.
    """

    def __init__(
        self,
        topic: str,
        read: Callable[[P], int],
        serve: Callable[[P], None],
        *,
        runtime: Runtime,
        partition_count: Callable[[], int],
        led_here: Callable[[int], bool],
    ) -> None:
        self._topic = topic
        self._read = read
        self._serve = serve
        self._runtime = runtime
        self._partition_count = partition_count
        self._led_here = led_here
        self._hosted: dict[int, P] = {}
        self._released: set[int] = set()

    def host(self, partition: P) -> None:
        """Host a partition from now on; a separate task loads it."""
        self._hosted[partition.number] = partition
        self._released.discard(partition.number)
        self._spawn_load(partition)

    def release(self, number: int) -> P | None:
        """Stop hosting a partition; returns it if it was hosted."""
        self._released.add(number)
        return self._hosted.pop(number, None)

    def holds(self, partition: P) -> bool:
        """Whether this object is still the hosted one for its partition."""
        return self._hosted.get(partition.number) is partition

    def get(self, number: int) -> P | None:
        """Return a hosted partition, loaded or not."""
        return self._hosted.get(number)

    def all(self) -> list[P]:
        """Every hosted partition, those that load included."""
        return list(self._hosted.values())

    def loaded(self) -> list[P]:
        """The partitions that are served."""
        return [partition for partition in self._hosted.values() if partition.loaded]

    def find(self, key: str) -> tuple[P | None, ErrorCode]:
        """The partition that serves a group or transactional id, or why it is not coordinated here.

        Returns:
            The partition and NONE; or None and 14 (loading) or 16 (another broker coordinates).
        """
        number = key_partition(key, self._partition_count())
        partition = self._hosted.get(number)
        if partition is None:
            if number not in self._released and self._led_here(number):
                return None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            return None, ErrorCode.NOT_COORDINATOR
        if not partition.loaded:
            return None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return partition, ErrorCode.NONE

    def _load(self, partition: P, retry_s: float = _RETRY_S) -> None:
        name = self._topic, partition.number
        try:
            count = self._read(partition)
        except NotLeaderForPartition as error:
            # The next leader loads it, or this broker when it leads again.
            logger.info("loading ends topic=%s partition=%d reason=%s", *name, error)
            return
        except (ProtocolError, StorageError) as error:
            logger.error(  # noqa: TRY400 - the reason is in the message
                "loading failed topic=%s partition=%d reason=%s", *name, error
            )
            self._runtime.sleep(retry_s)
            if self.holds(partition):
                self._spawn_load(partition, min(retry_s * 2, _RETRY_MAX_S))
            return
        if not self.holds(partition):
            return
        partition.loaded = True
        self._serve(partition)
        logger.info("loaded topic=%s partition=%d entries=%d", *name, count)

    def _spawn_load(self, partition: P, retry_s: float = _RETRY_S) -> None:
        name = f"load-{self._topic}-{partition.number}"
        self._runtime.spawn(self._load, partition, retry_s, name=name)
