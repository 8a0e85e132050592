from contextlib import contextmanager

import gevent
import pytest

from zkbroker.broker.conversion import LIGHT_BYTES, DownConversion
from zkbroker.records import (
    AppendPolicy,
    Codec,
    encode_message_set,
    iter_entries,
    iter_records,
    prepare_append,
)


class BatchLog:
    """A log of the given batches."""

    def __init__(self, *batches):
        self.batches = batches

    def __call__(self, offset, limit):
        for batch in self.batches:
            if next(iter_entries(batch)).last_offset >= offset:
                return batch
        return b""


class CountingContext:
    """Counts reserved memory and how often a request was parked."""

    def __init__(self, memory=10**9):
        self.memory, self.reserved, self.parks = memory, 0, 0
        self.session = self

    def reserve_answer(self, wanted):
        self.reserved = min(wanted, self.memory)
        return self.reserved

    def correct_answer(self, by):
        self.reserved += by

    @contextmanager
    def park(self, wake):
        self.parks += 1
        yield


class RecordingOffload:
    """Runs functions in place; records their bounds and how many ran at the same time."""

    def __init__(self):
        self.bounds, self.running, self.most = [], 0, 0

    def __call__(self, function, *args):
        self.bounds.append(args[-1])
        if args[-1] > LIGHT_BYTES:
            self.running += 1
            self.most = max(self.most, self.running)
            gevent.sleep(0.001)
        try:
            return function(*args)
        finally:
            if args[-1] > LIGHT_BYTES:
                self.running -= 1


@pytest.fixture
def offload():
    return RecordingOffload()


def batch(count, size, codec=Codec.GZIP, base=0):
    data = encode_message_set([(None, bytes(size), 1000, ())] * count, codec=codec)
    return bytes(prepare_append(bytearray(data), base, AppendPolicy(), 0).data)


def test_small_set_is_converted_in_place(offload):
    context = CountingContext()
    converted, cut = DownConversion(offload).read(BatchLog(batch(3, 10)), 0, 5000, 1, context)
    assert [record.offset for record in iter_records(converted)] == [0, 1, 2]
    assert (offload.bounds, context.parks, cut) == ([], 0, False)
    assert context.reserved == len(converted)


def test_larger_set_is_converted_in_another_thread(offload):
    context = CountingContext()
    DownConversion(offload).read(BatchLog(batch(3000, 10)), 0, 5000, 0, context)
    assert (offload.bounds, context.parks) == ([LIGHT_BYTES], 0)


def test_highly_compressed_sets_are_converted_one_at_a_time_parked(offload):
    conversion = DownConversion(offload)
    log = BatchLog(batch(60, 100_000))
    contexts = [CountingContext() for _ in range(5)]
    tasks = [gevent.spawn(conversion.read, log, 0, 10_000, 1, context) for context in contexts]
    gevent.joinall(tasks, raise_error=True)
    assert offload.most == 1
    assert [context.parks for context in contexts] == [1] * 5
    assert len(list(iter_records(tasks[0].value[0]))) == 60


def test_converted_size_is_counted_and_memory_bounds_the_response(offload):
    context = CountingContext(memory=64)
    converted, cut = DownConversion(offload).read(
        BatchLog(batch(100, 10, Codec.NONE)), 0, 5000, 1, context
    )
    assert cut
    assert context.reserved == len(converted) > 64
