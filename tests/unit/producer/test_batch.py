"""Batches: built bytes, splits and sequence numbers."""

from tests.support.producers import make_run
from zkbroker.producer.batch import Batch, next_sequence
from zkbroker.producer.queued_messages import futures_of, whole
from zkbroker.records import Codec, iter_records


def test_built_batch_keeps_its_bytes_for_retries():
    batch = Batch("t", 0, 0.0)
    queued = make_run(5)
    batch.add(whole(queued), queued.records, 50)
    batch.number(7, 0, 3)
    data = batch.build(2, Codec.NONE, None)
    assert batch.build(2, Codec.NONE, None) is data
    assert [record.value for record in iter_records(data)] == [b"0", b"1", b"2", b"3", b"4"]
    assert batch.build(1, Codec.NONE, None) != data


def test_split_halves_continue_sequence_numbers_and_resolve_their_own_messages():
    batch = Batch("t", 0, 0.0)
    one, two = make_run(3), make_run(4)
    batch.add(whole(one), one.records, 30)
    batch.add(whole(two), two.records, 40)
    batch.number(7, 0, 2**31 - 2)
    first, second = batch.split()
    third, fourth = second.split()
    assert [b.base_sequence for b in (first, second, third, fourth)] == [2**31 - 2, 1, 1, 3]
    first.succeed(10, -1)
    fourth.succeed(20, 99)
    third.fail(ValueError("no"))
    futures = futures_of([whole(one), whole(two)])
    assert [f.result(0).offset for f in futures[:3]] == [10, 11, 12]
    assert [str(f.exception(0)) for f in futures[3:5]] == ["no", "no"]
    assert [f.result(0) for f in futures[5:]] == [("t", 0, 20, 99), ("t", 0, 21, 99)]


def test_sequence_numbers_wrap():
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(5, 10) == 15
