"""The safety rules that are checked at every moment of a simulated schedule.

    - a record acknowledged with acks=all is in the log of every later leader
    - only one broker appends under a leader epoch
    - replicas agree below their high watermarks, and consumers see one value at an offset
    - stored leader epochs only grow, and each has one leader
    - no broker has a log of a deleted topic, and a new topic of the same name starts empty

Invariant: the checker receives events of the simulation and reads disks; it changes nothing.
"""

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from tests.support.simulated_logs import Record
from zkbroker.log import TopicPartition
from zkbroker.registry.partition_states import Key
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.partition import Partition

if TYPE_CHECKING:
    from tests.support.simulated_node import SimNode


class SafetyChecker:
    """Keeps the history of all partitions, and every broken rule in `problems`.

    Args:
        now: seconds on the virtual clock.
        nodes: every broker's present process.
        replicas: the brokers that a partition is assigned to, or was before it was deleted.
        persistent: whether `state` nodes hold the controller's decisions.
        loss: acknowledged records may be lost; only the rules that still hold are checked.
        all_may_lose_power: all brokers together may lose records that were not acknowledged,
            even records that consumers have read.
    """

    def __init__(
        self,
        now: Callable[[], float],
        nodes: Mapping[int, "SimNode"],
        replicas: Callable[[TopicPartition], Collection[int]],
        *,
        persistent: bool,
        loss: bool,
        all_may_lose_power: bool,
    ) -> None:
        self.persistent = persistent
        self.problems: list[str] = []
        self.events: list[str] = []
        self.acks = 0
        self.stored_states: dict[Key, Any] = {}
        """The stored state of each partition."""
        self.on_state_stored: list[Callable[[Key, Any, Any], object]] = []
        """Called with the partition, the previous state (None for the first) and the new one."""
        self.on_leadership: list[Callable[[SimNode, Leadership], object]] = []
        self._now = now
        self._nodes = nodes
        self._replicas = replicas
        self._loss = loss
        self._all_may_lose_power = all_may_lose_power
        self._writers: dict[tuple[Key, int], int] = {}
        self._acked: dict[Key, dict[int, tuple[int, int]]] = {}
        self._committed: dict[Key, list[Record | None]] = {}
        self._seen: dict[Key, dict[int, int]] = {}
        self._led: dict[Key, tuple[int, SimNode]] = {}
        self._deleted_before: dict[Key, int] = {}

    def problem(self, text: str) -> None:
        self.problems.append(f"{self._now():.3f}: {text}")

    def record_event(self, text: str) -> None:
        self.events.append(f"{self._now():.3f}: {text}")

    # -- events

    def state_stored(self, key: Key, before: bytes | None, data: bytes) -> None:
        """ZooKeeper has stored a partition's state."""
        if not data:
            return
        now = json.loads(data)
        last = self.stored_states.get(key)
        self.stored_states[key] = now
        self.record_event(f"stored {key[0]}-{key[1]}: {data.decode()}")
        if last is not None:
            self._check_next_state(key, last, now)
        for listener in self.on_state_stored:
            listener(key, last, now)

    def _check_next_state(self, key: Key, last: Any, now: Any) -> None:
        epoch, earlier = now["leader_epoch"], last["leader_epoch"]
        if epoch < earlier:
            self.problem(f"{key}: epoch {earlier} was followed by {epoch}")
        if epoch == earlier and now["leader"] != last["leader"]:
            self.problem(f"{key}: epoch {epoch} is led by {last['leader']} and {now['leader']}")
        if epoch > earlier and now["controller_epoch"] < last["controller_epoch"]:
            self.problem(f"{key}: a deposed controller decided epoch {epoch}")
        if not now["isr"]:
            self.problem(f"{key}: the ISR is empty")

    def topic_deleted(self, topic: str) -> None:
        """A topic's node was deleted: no replica may have a log of it."""
        self.record_event(f"{topic} is deleted")
        for key in [key for key in self.stored_states if key[0] == topic]:
            for node in self._nodes.values():
                node.disk.lost.pop(TopicPartition(*key), None)
                had = node.id in self._replicas(TopicPartition(*key))
                if had and node.disk.records(TopicPartition(*key)) is not None:
                    self.problem(f"{key} was deleted, but broker {node.id} has a log of it")
        for known in (
            self.stored_states,
            self._acked,
            self._committed,
            self._seen,
            self._led,
            self._deleted_before,
        ):
            for key in [key for key in known if key[0] == topic]:
                del known[key]  # type: ignore[attr-defined]
        for written in [each for each in self._writers if each[0][0] == topic]:
            del self._writers[written]

    def appended(self, key: Key, broker: int, epoch: int) -> None:
        """A broker appended as the leader."""
        first = self._writers.setdefault((key, epoch), broker)
        if first != broker:
            self.problem(f"{key}: {first} and {broker} append under epoch {epoch}")

    def leadership_began(self, node: "SimNode", leadership: Leadership) -> None:
        """A broker begins to lead, perhaps long after its election."""
        key, epoch = leadership.key, leadership.leader_epoch
        self.record_event(f"{node.id} leads {key} epoch={epoch} end={leadership.epoch_start}")
        if key not in self._led or self._led[key][0] < epoch:
            self._led[key] = (epoch, node)
        for offset, (value, acked_in) in self._acked.get(key, {}).items():
            if acked_in <= epoch:
                self._must_have(node, key, offset, value)
        for listener in self.on_leadership:
            listener(node, leadership)

    def acknowledged(
        self, node: "SimNode", leadership: Leadership, base: int, values: list[int]
    ) -> None:
        """A producer received the acknowledgement that all replicas in sync have its values."""
        self.acks += 1
        key, epoch = leadership.key, leadership.leader_epoch
        for offset, value in enumerate(values, base):
            self._acked.setdefault(key, {})[offset] = (value, epoch)
            later, leader = self._led.get(key, (-1, node))
            if later >= epoch and leader.alive:
                self._must_have(leader, key, offset, value)

    def records_deleted(self, key: Key, offset: int) -> None:
        """The deletion of all records before an offset was requested, and may have happened."""
        self._deleted_before[key] = max(offset, self._deleted_before.get(key, 0))

    def _must_have(self, node: "SimNode", key: TopicPartition, offset: int, value: int) -> None:
        if self._loss or offset < self._deleted_before.get(key, 0):
            return
        start, records = node.disk.records(key) or (0, [])
        at = offset - start
        if not 0 <= at < len(records) or records[at][1] != value:
            found = records[at] if 0 <= at < len(records) else "nothing"
            self.problem(
                f"{key}: {node.id} leads in epoch {self.stored_states[key]['leader_epoch']} "
                f"and has {found} at {offset}, where {value} was acknowledged"
            )

    def consumed(self, node: "SimNode", key: TopicPartition, offset: int, value: int) -> None:
        """A consumer received a value."""
        if self._loss or self._all_may_lose_power:
            return
        known = self._seen.setdefault(key, {}).setdefault(offset, value)
        if known != value:
            self.problem(f"{key}: consumers saw {known} and, at {node.id}, {value} at {offset}")

    def consumed_count(self, key: TopicPartition) -> int:
        """Return how many offsets consumers have read."""
        return len(self._seen.get(key, ()))

    # -- checks over all disks

    def check_replicas_agree(self) -> None:
        """Check that replicas have equal records below their high watermarks."""
        if self._loss or self._all_may_lose_power:
            return
        for node in self._nodes.values():
            if node.alive:
                for partition in node.replicas.all():
                    if partition.has_log:
                        self._check_committed(node, partition)

    def _check_committed(self, node: "SimNode", partition: Partition) -> None:
        key, mark = partition.key, partition.high_watermark
        found = node.disk.records(key)
        if found is None:
            return
        start, records = found
        known = self._committed.setdefault(key, [])
        known += [None] * (start - len(known))
        both = min(len(known), mark, start + len(records))
        if known[start:both] != records[: max(0, both - start)]:
            for at in range(start, both):
                if known[at] is None:
                    known[at] = records[at - start]
                elif known[at] != records[at - start]:
                    self.problem(
                        f"{key}: {node.id} has {records[at - start]} at {at} below its high "
                        f"watermark {mark}, others had {known[at]}"
                    )
                    return
        known += records[max(0, both - start) : max(0, mark - start)]

    def check_acknowledged(self) -> None:
        """Check that the last leader has every acknowledged record."""
        for key, acked in self._acked.items():
            # It may have led all the time without noticing that another broker led in between.
            leader = self._nodes[self.stored_states[key]["leader"]]
            for offset, (value, _) in acked.items():
                self._must_have(leader, TopicPartition(*key), offset, value)
