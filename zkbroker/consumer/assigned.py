"""A reader of given partitions, without a group: for tools, replays and loaders.

    {partition: start} --fetchers, one stream--> messages until each partition's stop

Invariant: it never waits for a message that may not exist. A partition has reached its stop when
its position has, even where the last offsets hold no message (control batches, gaps).
"""

import logging
from collections.abc import Iterator, Mapping

from zkbroker.client import Cluster
from zkbroker.config.fetching import FetchSettings
from zkbroker.consumer.fetching.fetchers import Fetchers
from zkbroker.consumer.fetching.messages import ConsumerTimeout, Decoder, MessageAndMetadata
from zkbroker.consumer.fetching.partition import ConsumedPartition
from zkbroker.consumer.streams.stream import KafkaStream
from zkbroker.runtime import Runtime, get_runtime
from zkbroker.runtime.forks import abandon_in_child
from zkbroker.types import PartitionKey

logger = logging.getLogger(__name__)

_LOOK_AGAIN_MS = 20
_CLOSE_TIMEOUT_S = 10.0


class AssignedConsumer:
    """Iterates over the messages of given partitions, in order within each.

    Args:
        cluster: knows leaders and gives connections; not closed here.
        starts: partition -> first offset; None for `auto_offset_reset` of `settings`.
        stop: partition -> the offset before which to end. Partitions without one are read for
            ever; the iteration ends when all partitions have a stop and reached it.
        settings: of its fetches; by default an offset outside the log is an error.
        timeout_ms: after how long without a message `ConsumerTimeout` is raised; -1 for never.
        runtime: `threads`, `gevent` or a `Runtime`.
        key_decoder: as of a stream.
        value_decoder: as of a stream.
    """

    def __init__(
        self,
        cluster: Cluster,
        starts: Mapping[PartitionKey, int | None],
        *,
        stop: Mapping[PartitionKey, int] | None = None,
        settings: FetchSettings | None = None,
        timeout_ms: int = -1,
        runtime: str | Runtime = "threads",
        key_decoder: Decoder | None = None,
        value_decoder: Decoder | None = None,
    ) -> None:
        self._runtime = get_runtime(runtime)
        settings = settings or FetchSettings()
        self._stops = dict(stop or {})
        self._fetchers = Fetchers(cluster, settings, self._runtime)
        self._looks = None if timeout_ms < 0 else timeout_ms // _LOOK_AGAIN_MS
        self._stream = KafkaStream(
            self._runtime,
            timeout_ms=_LOOK_AGAIN_MS,
            key_decoder=key_decoder,
            value_decoder=value_decoder,
            on_room=self._fetchers.wake,
        )
        self._partitions = {
            (topic, number): ConsumedPartition(
                topic,
                number,
                self._stream,
                self._runtime.lock(),
                settings.partition_bytes,
                start,
                settings.queued_chunks,
            )
            for (topic, number), start in starts.items()
        }
        self._open = set(self._partitions)
        self._closed = self._forked = False
        abandon_in_child(self)
        self._end_reached()
        self._fetchers.start(self._partitions[key] for key in self._open)

    def __iter__(self) -> Iterator[MessageAndMetadata]:
        """Yield messages; after `ConsumerTimeout` another iteration continues from there."""
        stops = self._stops
        looks = self._looks
        while self._open and not self._closed:
            seen = False
            try:
                for message in self._stream:
                    seen = True
                    stop = stops.get(message[:2])
                    if stop is None or message[2] < stop:
                        yield message
                    if stop is not None and message[2] >= stop - 1:
                        self._finish(message[:2])
                        break
            except ConsumerTimeout:
                if self._end_reached() or seen:
                    looks = self._looks
                elif looks is not None:
                    looks -= 1
                    if looks < 0:
                        raise

    def positions(self) -> dict[PartitionKey, int]:
        """Return the offset of the next message of each partition, where it is known."""
        positions = {}
        for key, partition in self._partitions.items():
            position = self._stops[key] if key not in self._open else None
            if position is None:
                position = partition.position(in_hand=True)
            if position is not None:
                positions[key] = position
        return positions

    def close(self) -> None:
        """End the iteration and the fetchers."""
        self._closed = True
        if self._forked:
            return
        self._stream.close()
        if not self._fetchers.close(_CLOSE_TIMEOUT_S):
            logger.warning("fetchers still running after=%gs", _CLOSE_TIMEOUT_S)

    def abandon_after_fork(self) -> None:
        """Leave the fetchers to the parent; called in the child of a fork."""
        self._forked = True

    def __enter__(self) -> "AssignedConsumer":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _end_reached(self) -> bool:
        reached = []
        for key in self._open:
            position = self._partitions[key].position(in_hand=False)
            if key in self._stops and position is not None and position >= self._stops[key]:
                reached.append(key)
        for key in reached:
            self._finish(key)
        return bool(reached)

    def _finish(self, key: PartitionKey) -> None:
        if key in self._open:
            self._open.discard(key)
            self._partitions[key].revoke()
            self._stream.interrupt()
