"""Turns a chunk into batches for the target.

    chunk ──repack──▶ pieces ──mark, handle──▶ messages ──partition──▶ batches

Invariant: batches come in the order of the log, and each message from the requested offset on is in
    exactly one, or was left out by a rule that the user chose.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from zkbroker.consumer import MessageAndMetadata
from zkbroker.consumer.fetching.partition import Chunk
from zkbroker.errors import ClientError, ConfigError, ZkbrokerError
from zkbroker.measures import TopicTable
from zkbroker.mirror.config import MirrorConfig
from zkbroker.mirror.handlers import Handle
from zkbroker.mirror.loop_guard import PathMarker
from zkbroker.mirror.repack import Decoded, StoredEntries, in_batches, record_bytes
from zkbroker.mirror.routes import Route, Routes
from zkbroker.mirror.source_cluster import MirrorSource
from zkbroker.mirror.target import MirrorTarget
from zkbroker.producer import EncodedBatch, KeyedMessage
from zkbroker.records import Codec
from zkbroker.records.record import Unsent
from zkbroker.types import PartitionKey

Choose = Callable[[bytes | None, bytes | None], int]
Done = Callable[[EncodedBatch], object]


@dataclass(slots=True)
class Counts:
    """Counts of a stream since it began."""

    stored_batches: int = 0
    encoded_batches: int = 0
    dropped_messages: int = 0
    looped_messages: int = 0
    handled_messages: int = 0
    failures: int = 0
    topics: TopicTable = field(default_factory=TopicTable)


class TopicNotReady(ClientError):
    """The partitions of a topic that the message handler named are not known; nothing was sent."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"the target has no partitions of topic {topic} yet")
        self.topic = topic


class MirrorBatch(EncodedBatch):
    """A batch of a mirror; `begin` is the source position of a reading's first batch, else None."""

    __slots__ = ("begin",)

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self.begin: int | None = None


class BatchMaker:
    """Makes the batches of one stream.

    Args:
        config: of the mirror.
        source: where chunks are from.
        routes: of the source.
        target: where to.
        marker: writes paths; None for no paths.
        handle: the user's message handler.
    """

    def __init__(
        self,
        config: MirrorConfig,
        *,
        source: MirrorSource,
        routes: Routes,
        target: MirrorTarget,
        marker: PathMarker | None,
        handle: Handle | None,
    ) -> None:
        self._config = config
        self._source = source
        self._routes = routes
        self._target = target
        self._marker = marker
        self._handle = handle
        self.counts = Counts()
        self._max_bytes = target.settings.batch_max_bytes

    def batches(
        self, chunk: Chunk, begin: int, route: Route, done: Done, *, aligned: bool
    ) -> Iterator[MirrorBatch]:
        """Yield the batches of a chunk.

        Args:
            chunk: as it was fetched.
            begin: the first offset to send.
            route: of its topic.
            done: called once with each batch when its outcome is known.
            aligned: whether nothing in the chunk is before `begin`.

        Raises:
            CorruptMessage: after the batches before the damage.
            ConfigError: the message handler did not return messages.
            TopicNotReady: it named a topic whose partitions cannot be looked up.
        """
        topic, number = chunk.partition.key
        choose = self._routes.chooser(route, number)
        counts = self.counts
        counted = counts.topics.topic(topic)
        pieces = self._source.repack(
            chunk,
            begin,
            magic=self._target.magic,
            join_bytes=self._config.join_bytes,
            max_bytes=self._max_bytes,
            aligned=aligned,
            decode=self._marker is not None or self._handle is not None or not route.identity,
        )
        for piece in pieces:
            if isinstance(piece, StoredEntries):
                counts.stored_batches += 1
                counted.add(piece.count, len(piece.data))
                yield MirrorBatch(
                    route.topic,
                    number,
                    done,
                    stored=piece.data,
                    magic=piece.magic,
                    count=piece.count,
                    codec=piece.codec,
                )
                continue
            counted.add(len(piece.records), sum(map(record_bytes, piece.records)))
            records = self._filtered(piece)
            if self._handle is None:
                yield from self._dealt(route, records, piece.codec, done, choose)
            else:
                yield from self._handled(chunk, route, records, piece.codec, done, choose)

    def _filtered(self, piece: Decoded) -> Sequence[Unsent]:
        """Return the records that were not in the target before, with headers that it supports."""
        records = piece.records
        if self._marker is not None and self._target.magic == 2:
            records = self._marker.marked(records)
            self.counts.looped_messages += len(piece.records) - len(records)
        if self._config.drop_headers and self._target.magic < 2:
            records = [(key, value, stamp, ()) for key, value, stamp, _ in records]
        return records

    def _dealt(
        self, route: Route, records: Sequence[Unsent], codec: Codec, done: Done, choose: Choose
    ) -> Iterator[MirrorBatch]:
        if not records:
            return
        dealt: dict[int, list[Unsent]] = {}
        if route.identity:
            dealt[choose(None, None)] = list(records)
        else:
            for record in records:
                dealt.setdefault(choose(record[0], record[1]), []).append(record)
        for number, part in dealt.items():
            yield self._encoded(route.topic, number, part, codec, done)

    def _encoded(
        self, topic: str, number: int, records: list[Unsent], codec: Codec, done: Done
    ) -> MirrorBatch:
        self.counts.encoded_batches += 1
        size = sum(map(record_bytes, records))
        return MirrorBatch(topic, number, done, records=records, codec=codec, size=size)

    def _handled(
        self,
        chunk: Chunk,
        route: Route,
        records: Sequence[Unsent],
        codec: Codec,
        done: Done,
        choose: Choose,
    ) -> Iterator[MirrorBatch]:
        assert self._handle is not None
        topic, number = chunk.partition.key
        dealt: dict[PartitionKey, list[Unsent]] = {}
        for key, value, stamp, headers in records:
            self.counts.handled_messages += 1
            message = MessageAndMetadata(topic, number, -1, key, value, stamp, 0, headers)
            for each in self._handle(message):
                place = self._place(each, message, route, choose)
                dealt.setdefault(place, []).append(_unsent(each, stamp))
        for (name, partition), part in dealt.items():
            for batch in in_batches(part, self._max_bytes):
                yield self._encoded(name, partition, list(batch), codec, done)

    def _place(
        self, message: KeyedMessage, original: MessageAndMetadata, route: Route, choose: Choose
    ) -> PartitionKey:
        name = route.topic if message.topic == original.topic else message.topic
        if message.partition is not None:
            return name, message.partition
        if name == route.topic:
            return name, choose(message.key, message.message)
        try:
            partitions = self._target.partitions(name)
        except (ZkbrokerError, OSError) as error:
            raise TopicNotReady(name) from error
        other = Route(name, partitions, identity=False)
        return name, self._routes.chooser(other, original.partition)(message.key, message.message)


def _unsent(message: KeyedMessage, stamp: int) -> Unsent:
    for part in (message.key, message.message):
        if part is not None and not isinstance(part, bytes):
            raise ConfigError(
                f"message.handler returned {type(part).__name__} as key or value of a message to "
                f"{message.topic}: give bytes or None"
            )
    when = stamp if message.timestamp_ms is None else message.timestamp_ms
    return message.key, message.message, when, message.headers
