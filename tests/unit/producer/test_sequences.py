"""Sequence numbers, and changes of the producer id."""

from types import SimpleNamespace

import pytest

from tests.support.producers import RUNTIMES, make
from zkbroker.errors import ErrorCode
from zkbroker.producer import KeyedMessage, SendFailed
from zkbroker.producer.accumulator import PartitionQueue
from zkbroker.producer.sequences import SequenceNumbers
from zkbroker.protocol import ApiKey
from zkbroker.records import iter_entries


class FakeBatch:
    def __init__(self):
        self.numbers = (-1, -1, -1)

    @property
    def numbered(self):
        return self.numbers[0] >= 0

    def number(self, *numbers):
        self.numbers = numbers

    def __len__(self):
        return 3


def test_new_producer_id_waits_for_batches_in_flight():
    asked = []
    runtime = SimpleNamespace(spawn=lambda function, name: asked.append(name))
    sequences = SequenceNumbers(None, runtime, 0.1, post=None, refused=None)
    sequences.producer_id, sequences.producer_epoch = 5, 0
    queue = PartitionQueue("t", 0)
    first, second = FakeBatch(), FakeBatch()
    assert sequences.assign(queue, first, now=0.0)
    assert first.numbers == (5, 0, 0)
    # The first batch was given up while a batch is in flight, whose outcome is not known yet.
    queue.renumber = True
    queue.in_flight.append(first)
    assert not sequences.assign(queue, second, now=0.0)
    sequences.producer_id = 6
    assert not sequences.assign(queue, second, now=0.0)
    assert not second.numbered
    assert asked == []
    queue.in_flight.clear()
    assert sequences.assign(queue, second, now=0.0)
    assert second.numbers == (6, 0, 0)


def test_renumbering_requests_another_producer_id():
    asked = []
    runtime = SimpleNamespace(spawn=lambda function, name: asked.append(name))
    sequences = SequenceNumbers(None, runtime, 0.1, post=None, refused=None)
    sequences.producer_id = 5
    queue = PartitionQueue("t", 0)
    queue.producer_id, queue.renumber = 5, True
    assert not sequences.assign(queue, FakeBatch(), now=0.0)
    assert asked == ["producer-id"]


@RUNTIMES
def test_lost_producer_state_restarts_sequence_numbers_and_stores_messages_once(fake, runtime):
    with make(fake, runtime, enable_idempotence="true") as producer:
        producer.send([KeyedMessage("t", b"%d" % i) for i in range(3)])
        (number,) = fake.log("t", 0).producers
        epoch, _ = fake.log("t", 0).producers[number]
        # The broker lost its last messages, and expects an older sequence number.
        fake.log("t", 0).producers[number] = (epoch, [(-9, -7, 0)])
        producer.send([KeyedMessage("t", b"%d" % i) for i in range(3, 6)])
        producer.send(KeyedMessage("t", b"6"))
    assert fake.values("t", 0) == [b"%d" % i for i in range(7)]


@RUNTIMES
def test_sequence_numbers_restart_after_failed_batch(fake, runtime):
    refused = iter([None, ErrorCode.INVALID_TIMESTAMP])
    fake.faults[ApiKey.PRODUCE, 0] = lambda request: next(refused, None)
    with make(fake, runtime, enable_idempotence="true") as producer:
        producer.send(KeyedMessage("t", b"one"))
        with pytest.raises(SendFailed):
            producer.send(KeyedMessage("t", b"two"))
        producer.send(KeyedMessage("t", b"three"))
    assert fake.values("t", 0) == [b"one", b"three"]
    sent = [
        next(iter(iter_entries(bytes(request.topics[0].partitions[0].records))))
        for key, _, request in fake.brokers[0].requests
        if key is ApiKey.PRODUCE
    ]
    # Three requests: no batch was sent with a sequence number that the broker refuses.
    assert [entry.base_sequence for entry in sent] == [0, 1, 0]
    assert sent[2].producer_id != sent[0].producer_id
