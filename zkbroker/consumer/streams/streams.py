"""The streams of one member, by topic and thread number.

Invariant: a partition that was assigned to thread n of a topic feeds stream n of that topic. With a
filter all topics share the same streams, kept here under the topic None.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field

from zkbroker.consumer.fetching.messages import Decoder
from zkbroker.consumer.streams.stream import KafkaStream
from zkbroker.runtime import Runtime


@dataclass(eq=False)
class Streams(Iterable[KafkaStream]):
    """All streams of a member.

    Args:
        runtime: the connector's.
        timeout_ms: `consumer.timeout.ms`.
        on_room: called when a stream took a chunk.
        lease_valid: whether the member's ZooKeeper session may still be alive.
    """

    runtime: Runtime
    _: KW_ONLY
    timeout_ms: int
    on_room: Callable[[], None]
    lease_valid: Callable[[], bool]
    _streams: dict[tuple[str | None, int], KafkaStream] = field(default_factory=dict, init=False)

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
                self.runtime,
                timeout_ms=self.timeout_ms,
                key_decoder=key_decoder,
                value_decoder=value_decoder,
                on_room=self.on_room,
                lease_valid=self.lease_valid,
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
