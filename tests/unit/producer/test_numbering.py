"""Sequence numbers: when a partition may go on under another producer id."""

from types import SimpleNamespace

from zkbroker.producer.accumulator import PartitionQueue
from zkbroker.producer.numbering import Numbering


class PlayedBatch:
    def __init__(self):
        self.numbers = (-1, -1, -1)

    @property
    def numbered(self):
        return self.numbers[0] >= 0

    def number(self, *numbers):
        self.numbers = numbers

    def __len__(self):
        return 3


def test_another_producer_id_is_taken_only_when_nothing_of_the_old_one_is_open():
    asked = []
    runtime = SimpleNamespace(spawn=lambda function, name: asked.append(name))
    numbering = Numbering(None, runtime, 0.1, post=None, refused=None)
    numbering.producer_id, numbering.producer_epoch = 5, 0
    queue = PartitionQueue("t", 0)
    first, second = PlayedBatch(), PlayedBatch()
    assert numbering.assign(queue, first, now=0.0)
    assert first.numbers == (5, 0, 0)
    # The first is given up elsewhere, a later one is still in flight: its fate decides the order.
    queue.renumber = True
    queue.in_flight.append(first)
    assert not numbering.assign(queue, second, now=0.0)
    numbering.producer_id = 6
    assert not numbering.assign(queue, second, now=0.0)
    assert not second.numbered
    assert asked == []
    queue.in_flight.clear()
    assert numbering.assign(queue, second, now=0.0)
    assert second.numbers == (6, 0, 0)


def test_the_same_producer_id_is_not_taken_for_another():
    asked = []
    runtime = SimpleNamespace(spawn=lambda function, name: asked.append(name))
    numbering = Numbering(None, runtime, 0.1, post=None, refused=None)
    numbering.producer_id = 5
    queue = PartitionQueue("t", 0)
    queue.producer_id, queue.renumber = 5, True
    assert not numbering.assign(queue, PlayedBatch(), now=0.0)
    assert asked == ["producer-id"]
