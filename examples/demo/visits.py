"""A consumer that counts visits per member, and the group of them that the demo runs."""

from collections import Counter
from collections.abc import Mapping

from examples.demo.access_log import member
from zkbroker.config.consumer import ConsumerConfig
from zkbroker.consumer import Consumer
from zkbroker.runtime import Runtime


class Visits:
    """Messages seen by one group: each is counted once, by its partition and offset.

    Streams deliver at least once: after a rebalance a message may come again, to another consumer.

    Args:
        from_offsets: partition → first offset that counts; earlier ones belong to earlier runs.
    """

    def __init__(self, from_offsets: Mapping[int, int]) -> None:
        self._from = from_offsets
        self._seen: set[tuple[int, int]] = set()
        self.by_member: Counter[bytes] = Counter()
        self.repeated = 0

    @property
    def unique(self) -> int:
        """How many different messages were seen."""
        return len(self._seen)

    def count(self, partition: int, offset: int, line: bytes) -> None:
        """Count a delivered message."""
        if offset < self._from.get(partition, 0):
            return
        place = (partition, offset)
        if place in self._seen:
            self.repeated += 1
            return
        self._seen.add(place)
        self.by_member[member(line)] += 1


class Member:
    """One high-level consumer of the group, with one stream."""

    def __init__(
        self, name: str, zookeeper: str, group: str, topic: str, visits: Visits, runtime: Runtime
    ) -> None:
        self.name = name
        self.messages = 0
        self._visits = visits
        config = ConsumerConfig.from_properties(
            {
                "zookeeper.connect": zookeeper,
                "group.id": group,
                "consumer.id": name,
                "auto.offset.reset": "smallest",
                "auto.commit.interval.ms": "1000",
            }
        )
        self._connector = Consumer.create(config, runtime=runtime)
        (self._stream,) = self._connector.create_message_streams({topic: 1})[topic]
        self._task = runtime.spawn(self._consume, name=f"visits-{name}")

    def _consume(self) -> None:
        for message in self._stream:
            self.messages += 1
            self._visits.count(message.partition, message.offset, message.value)

    def leave(self) -> None:
        """Commit, hand over the partitions and go."""
        self._connector.shutdown()
        self._task.join(10)
