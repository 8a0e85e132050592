"""A log as a genuine broker leaves it behind transactional producers."""

import random
from pathlib import Path

from zkbroker.log import TopicPartition
from zkbroker.records import ABORT, COMMIT, control_batch, encode_message_set

TP = TopicPartition("my-topic", 0)
TIME = 1_700_000_000_000


class TransactionalLog:
    """Writes batches and markers as they are told, and remembers what of them is committed.

    Args:
        root: the data directory.
        tp: the partition; its directory is made.
    """

    def __init__(self, root: Path, tp: TopicPartition = TP) -> None:
        self.directory = root / str(tp)
        self.directory.mkdir(parents=True)
        self.offset = 0
        self.entries: list[tuple[int, bytes]] = []
        self.values: dict[int, bytes] = {}
        self.aborted: list[tuple[int, int, int, int]] = []
        """Producer id, first, last and last stable offset, in the order of the markers."""
        self._sequences: dict[int, int] = {}
        self._open: dict[int, list[int]] = {}
        self._left_out: set[int] = set()

    def send(
        self, producer: int | None, count: int = 1, *, key: bytes | None = None, value: bytes = b""
    ) -> None:
        """Write a batch, of a transaction where a producer is given."""
        records = []
        for number in range(self.offset, self.offset + count):
            self.values[number] = value or (b"%d" % number).ljust(20, b".")
            records.append((key, self.values[number], TIME + number, ()))
        identity = {}
        if producer is not None:
            sequence = self._sequences.get(producer, 0)
            self._sequences[producer] = sequence + count
            identity = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence,
                "is_transactional": True,
            }
            self._open.setdefault(producer, []).extend(range(self.offset, self.offset + count))
        self.entries.append(
            (self.offset, encode_message_set(records, base_offset=self.offset, **identity))
        )
        self.offset += count

    def end(self, producer: int, kind: int) -> None:
        """Write a marker."""
        self.entries.append(
            (
                self.offset,
                control_batch(
                    kind,
                    producer_id=producer,
                    producer_epoch=0,
                    timestamp_ms=TIME + self.offset,
                    base_offset=self.offset,
                ),
            )
        )
        offsets = self._open.pop(producer, [self.offset])
        if kind == ABORT:
            stable = min((each[0] for each in self._open.values()), default=self.offset + 1)
            self.aborted.append((producer, offsets[0], self.offset, stable))
            self._left_out.update(offsets)
        self.offset += 1

    def abort(self, producer: int) -> None:
        self.end(producer, ABORT)

    def commit(self, producer: int) -> None:
        self.end(producer, COMMIT)

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min((each[0] for each in self._open.values()), default=self.offset)

    @property
    def committed(self) -> list[int]:
        """Offsets of the messages that a reader of committed ones gets."""
        return [each for each in self.values if each < self.stable and each not in self._left_out]

    def store(self, *cuts: int) -> None:
        """Write the files; a segment begins at 0 and at the first batch from each cut on."""
        bases = [0]
        for cut in sorted(cuts):
            base = next((offset for offset, _ in self.entries if offset >= cut), None)
            if base is not None and base > bases[-1]:
                bases.append(base)
        for number, base in enumerate(bases):
            end = bases[number + 1] if number + 1 < len(bases) else self.offset
            data = b"".join(entry for offset, entry in self.entries if base <= offset < end)
            (self.directory / f"{base:020d}.log").write_bytes(data)

    def play(self, seed: int, steps: int = 60) -> None:
        """Let three producers run transactions at random, and others send between them."""
        chance = random.Random(seed)
        for _ in range(steps):
            producer = chance.randint(1, 3)
            match chance.randrange(6):
                case 0:
                    self.send(None, chance.randint(1, 3))
                case 1:
                    if producer in self._open:
                        self.abort(producer)
                case 2:
                    if producer in self._open:
                        self.commit(producer)
                case _:
                    self.send(producer, chance.randint(1, 3))
