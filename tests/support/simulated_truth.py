"""What must hold at every moment of a simulated schedule, whatever happens.

    - a record acknowledged with acks=all is in the log of every later leader
    - under one leader epoch one broker appends
    - replicas agree below their high watermarks, and consumers see one value at an offset
    - what is stored in ZooKeeper has epochs that only grow, and one leader in each
    - a topic that was deleted is nowhere any more, and one of the same name begins anew

Invariant: the truth is told by the simulation and looks at disks; it changes nothing.
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


class Truth:
    """Keeps what is known of all partitions, and the problems.

    Args:
        now: seconds on the virtual clock.
        nodes: every broker's process of now.
        replicas: the brokers that a partition is assigned to, or was before it was deleted.
        persistent: whether `state` nodes hold the decisions.
        loss: acknowledged records may be lost: only what must hold then, too, is looked at.
        torn: power may take from everybody what was not acknowledged, read by consumers or not.
    """

    def __init__(
        self,
        now: Callable[[], float],
        nodes: Mapping[int, "SimNode"],
        replicas: Callable[[TopicPartition], Collection[int]],
        *,
        persistent: bool,
        loss: bool,
        torn: bool,
    ) -> None:
        self.persistent = persistent
        self.problems: list[str] = []
        self.story: list[str] = []
        self.acks = 0
        self.decided: dict[Key, Any] = {}
        """What is stored of each partition."""
        self.on_stored: list[Callable[[Key, Any, Any], object]] = []
        """Called with the partition, the decision before (None for the first) and the new one."""
        self.on_leads: list[Callable[[SimNode, Leadership], object]] = []
        self._now = now
        self._nodes = nodes
        self._replicas = replicas
        self._loss = loss
        self._torn = torn
        self._writers: dict[tuple[Key, int], int] = {}
        self._acked: dict[Key, dict[int, tuple[int, int]]] = {}
        self._committed: dict[Key, list[Record | None]] = {}
        self._seen: dict[Key, dict[int, int]] = {}
        self._led: dict[Key, tuple[int, SimNode]] = {}
        self._trimmed: dict[Key, int] = {}

    def problem(self, text: str) -> None:
        self.problems.append(f"{self._now():.3f}: {text}")

    def tell(self, text: str) -> None:
        self.story.append(f"{self._now():.3f}: {text}")

    # -- what happens

    def stored(self, key: Key, before: bytes | None, data: bytes) -> None:
        """ZooKeeper has taken a decision."""
        if not data:
            return
        now = json.loads(data)
        last = self.decided.get(key)
        self.decided[key] = now
        self.tell(f"stored {key[0]}-{key[1]}: {data.decode()}")
        if last is not None:
            self._follows(key, last, now)
        for listener in self.on_stored:
            listener(key, last, now)

    def _follows(self, key: Key, last: Any, now: Any) -> None:
        epoch, earlier = now["leader_epoch"], last["leader_epoch"]
        if epoch < earlier:
            self.problem(f"{key}: epoch {earlier} was followed by {epoch}")
        if epoch == earlier and now["leader"] != last["leader"]:
            self.problem(f"{key}: epoch {epoch} is led by {last['leader']} and {now['leader']}")
        if epoch > earlier and now["controller_epoch"] < last["controller_epoch"]:
            self.problem(f"{key}: a deposed controller decided epoch {epoch}")
        if not now["isr"]:
            self.problem(f"{key}: the ISR is empty")

    def forget(self, topic: str) -> None:
        """A topic's node is removed: its name may begin anew."""
        self.tell(f"{topic} is deleted")
        for key in [key for key in self.decided if key[0] == topic]:
            for node in self._nodes.values():
                node.disk.lost.pop(TopicPartition(*key), None)
                had = node.id in self._replicas(TopicPartition(*key))
                if had and node.disk.records(TopicPartition(*key)) is not None:
                    self.problem(f"{key} was deleted, and {node.id} has it")
        for known in (
            self.decided,
            self._acked,
            self._committed,
            self._seen,
            self._led,
            self._trimmed,
        ):
            for key in [key for key in known if key[0] == topic]:
                del known[key]  # type: ignore[attr-defined]
        for written in [each for each in self._writers if each[0][0] == topic]:
            del self._writers[written]

    def appended(self, key: Key, broker: int, epoch: int) -> None:
        """A leader appends."""
        first = self._writers.setdefault((key, epoch), broker)
        if first != broker:
            self.problem(f"{key}: {first} and {broker} append under epoch {epoch}")

    def leads(self, node: "SimNode", leadership: Leadership) -> None:
        """A broker begins to lead, perhaps long after it was elected."""
        key, epoch = leadership.key, leadership.leader_epoch
        self.tell(f"{node.id} leads {key} epoch={epoch} end={leadership.epoch_start}")
        if key not in self._led or self._led[key][0] < epoch:
            self._led[key] = (epoch, node)
        for offset, (value, acked_in) in self._acked.get(key, {}).items():
            if acked_in <= epoch:
                self._must_have(node, key, offset, value)
        for listener in self.on_leads:
            listener(node, leadership)

    def acknowledged(
        self, node: "SimNode", leadership: Leadership, base: int, values: list[int]
    ) -> None:
        """A producer was told that every replica in sync has its values."""
        self.acks += 1
        key, epoch = leadership.key, leadership.leader_epoch
        for offset, value in enumerate(values, base):
            self._acked.setdefault(key, {})[offset] = (value, epoch)
            later, leader = self._led.get(key, (-1, node))
            if later >= epoch and leader.alive:
                self._must_have(leader, key, offset, value)

    def trimmed(self, key: Key, offset: int) -> None:
        """Somebody may have asked for the deletion of all records before an offset."""
        self._trimmed[key] = max(offset, self._trimmed.get(key, 0))

    def _must_have(self, node: "SimNode", key: TopicPartition, offset: int, value: int) -> None:
        if self._loss or offset < self._trimmed.get(key, 0):
            return
        start, records = node.disk.records(key) or (0, [])
        at = offset - start
        if not 0 <= at < len(records) or records[at][1] != value:
            found = records[at] if 0 <= at < len(records) else "nothing"
            self.problem(
                f"{key}: {node.id} leads in epoch {self.decided[key]['leader_epoch']} and has "
                f"{found} at {offset}, where {value} was acknowledged"
            )

    def consumed(self, node: "SimNode", key: TopicPartition, offset: int, value: int) -> None:
        """A consumer was given a value."""
        if self._loss or self._torn:
            return
        known = self._seen.setdefault(key, {}).setdefault(offset, value)
        if known != value:
            self.problem(f"{key}: consumers saw {known} and, at {node.id}, {value} at {offset}")

    def seen(self, key: TopicPartition) -> int:
        """How many offsets consumers were given."""
        return len(self._seen.get(key, ()))

    # -- what must hold of all disks together

    def check(self) -> None:
        """Replicas agree below their high watermarks."""
        if self._loss or self._torn:
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
        """Every acknowledged record is in the log of the last leader."""
        for key, acked in self._acked.items():
            # It may be one that went on leading, and never heard that another led in between.
            leader = self._nodes[self.decided[key]["leader"]]
            for offset, (value, _) in acked.items():
                self._must_have(leader, TopicPartition(*key), offset, value)
