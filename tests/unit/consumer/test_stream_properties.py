"""A stream against a model, under any sequence of fetches, reads, seeks and changes of owner."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.message_sets import message_set
from zkbroker.consumer import ConsumerTimeout, KafkaStream
from zkbroker.consumer.fetching.partition import Chunk, ConsumedPartition
from zkbroker.runtime import get_runtime

PARTITIONS = 2

number = st.integers(0, PARTITIONS - 1)
step = st.one_of(
    st.tuples(st.just("fetch"), number, st.integers(1, 300)),
    st.tuples(st.just("gap"), number, st.integers(1, 5)),
    st.tuples(st.just("read"), st.integers(1, 400)),
    st.tuples(st.just("seek"), number, st.integers(0, 1000)),
    st.tuples(st.just("reset"), number, st.integers(0, 1000)),
    st.tuples(st.just("hand over"), number),
    st.tuples(st.just("late answer"), number),
)


class Model:
    """Expected messages and commits of one partition."""

    def __init__(self, next_offset: int) -> None:
        self.fetch_offset = next_offset
        self.processed = next_offset
        # Offsets to deliver in order, None for a move of the position; each with the next offset.
        self.waiting: list[tuple[int | None, int]] = []
        self.in_hand: int | None = None


class StreamModelSetup:
    def __init__(self) -> None:
        self.runtime = get_runtime("threads")
        self.stream = KafkaStream(self.runtime, timeout_ms=0)
        self.partitions = [self.partition(n, 0) for n in range(PARTITIONS)]
        self.models = [Model(0) for _ in range(PARTITIONS)]
        self.late = [self.chunk(partition, 1) for partition in self.partitions]

    def partition(self, n: int, next_offset: int) -> ConsumedPartition:
        return ConsumedPartition("t", n, self.stream, self.runtime.lock(), 1000, next_offset)

    @staticmethod
    def chunk(partition: ConsumedPartition, count: int) -> Chunk:
        offset = partition.fetch_offset
        assert offset is not None
        records = message_set(2, count, base=offset)
        return Chunk(partition, partition.progress, offset, offset + count, records)

    def fetch(self, n: int, count: int) -> None:
        model = self.models[n]
        assert self.partitions[n].add(self.chunk(self.partitions[n], count))
        for offset in range(model.fetch_offset, model.fetch_offset + count):
            model.waiting.append((offset, offset + 1))
        model.fetch_offset += count

    def gap(self, n: int, count: int) -> None:
        """Fetch offsets that hold no message."""
        partition, model = self.partitions[n], self.models[n]
        end = model.fetch_offset + count
        partition.add(Chunk(partition, partition.progress, model.fetch_offset, end))
        model.waiting.append((None, end))
        model.fetch_offset = end

    def reset(self, n: int, offset: int) -> None:
        partition, model = self.partitions[n], self.models[n]
        assert partition.reset(partition.progress, offset)
        model.waiting.append((None, offset))
        model.fetch_offset = offset

    def seek(self, n: int, offset: int) -> None:
        self.late[n] = self.chunk(self.partitions[n], 3)
        assert self.partitions[n].seek(offset)
        self.stream.interrupt()
        self.models[n] = Model(offset)

    def hand_over(self, n: int) -> None:
        old, model = self.partitions[n], self.models[n]
        self.late[n] = self.chunk(old, 3)
        progress = old.revoke()
        self.stream.interrupt()
        committed = progress.processed + 1
        # The reader may have passed moves of the position already, as in `check`.
        assert committed in {model.processed, *self.moves(model)}
        self.partitions[n] = self.partition(n, committed)
        self.models[n] = Model(committed)

    def late_answer(self, n: int) -> None:
        if self.late[n].progress is not self.partitions[n].progress:
            assert not self.late[n].partition.add(self.late[n])

    def read(self, count: int) -> None:
        for _ in range(count):
            for model in self.models:
                if model.in_hand is not None:
                    model.processed, model.in_hand = model.in_hand, None
            try:
                message = next(self.stream)
            except ConsumerTimeout:
                for model in self.models:
                    self.pass_moves(model)
                    assert not model.waiting
                return
            model = self.models[message.partition]
            self.pass_moves(model)
            offset, following = model.waiting.pop(0)
            assert message.offset == offset
            model.in_hand = following

    @staticmethod
    def pass_moves(model: Model) -> None:
        while model.waiting and model.waiting[0][0] is None:
            model.processed = model.waiting.pop(0)[1]

    def check(self) -> None:
        for partition, model in zip(self.partitions, self.models, strict=True):
            in_hand = model.processed if model.in_hand is None else model.in_hand
            # Moves of the position are seen when the reader gets to them, perhaps already.
            ahead = {model.processed, *self.moves(model)}
            assert partition.position(in_hand=False) in ahead
            assert partition.position(in_hand=True) in {in_hand, *self.moves(model)}

    @staticmethod
    def moves(model: Model) -> list[int]:
        ahead = []
        for offset, following in model.waiting:
            if offset is not None:
                break
            ahead.append(following)
        return ahead


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.lists(step, max_size=25))
def test_stream_matches_model(steps: list[tuple[object, ...]]) -> None:
    one = StreamModelSetup()
    for name, *arguments in steps:
        getattr(one, str(name).replace(" ", "_"))(*arguments)
        one.check()
    one.read(10_000)
    one.check()
