"""The streams of one member, by topic and thread number.

Invariant: a partition that was assigned to thread n of a topic feeds stream n of that topic. With a
filter all topics share the same streams, kept here under the topic None.
"""

from collections.abc import Callable, Iterable, Iterator

from zkbroker.consumer.fetching.messages import Decoder
from zkbroker.consumer.streams.stream import KafkaStream
from zkbroker.runtime import Runtime


class Streams(Iterable[KafkaStream]):
    """All streams of a member.

    Args:
        runtime: the connector's.
        timeout_ms: `consumer.timeout.ms`.
        on_room: called when a stream took a chunk.
        lease_valid: whether the member's ZooKeeper session may still be alive.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        timeout_ms: int,
        on_room: Callable[[], None],
        lease_valid: Callable[[], bool],
    ) -> None:
        self._runtime = runtime
        self._timeout_ms = timeout_ms
        self._on_room = on_room
        self._lease_valid = lease_valid
        self._streams: dict[tuple[str | None, int], KafkaStream] = {}

    def make(
        self,
        topic: str | None,
        count: int,
        key_decoder: Decoder | None,
        value_decoder: Decoder | None,
    ) -> list[KafkaStream]:
        """Make the streams of a topic, or of all topics of a filter (None)."""
        made = [
            KafkaStream(
                self._runtime,
                timeout_ms=self._timeout_ms,
                key_decoder=key_decoder,
                value_decoder=value_decoder,
                on_room=self._on_room,
                lease_valid=self._lease_valid,
            )
            for _ in range(count)
        ]
        self._streams.update(((topic, thread), stream) for thread, stream in enumerate(made))
        return made

    def of(self, topic: str, thread: int) -> KafkaStream:
        """Return the stream that a partition of a topic feeds."""
        stream = self._streams.get((topic, thread))
        return self._streams[None, thread] if stream is None else stream

    def __iter__(self) -> Iterator[KafkaStream]:
        return iter(list(self._streams.values()))
