"""A batch that was made elsewhere: records for one partition, already encoded or not.

    as it was stored, same format    reframed: only producer id, sequence and CRC are new
    another format, or split         decoded, and encoded with the codec it had

Invariant: its outcome is reported once, even if it was split; see also `Batch`.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import repeat

from zkbroker.codecs import EVERY_CODEC
from zkbroker.errors import UnsupportedForMessageFormat
from zkbroker.producer.batch import Batch
from zkbroker.records import Codec, RecordLists, decode_lists, reframe
from zkbroker.records.record import Unsent

OnDone = Callable[["EncodedBatch"], object]


class EncodedBatch(Batch):
    """Records that are sent together.

    Args:
        topic: of the records.
        partition: number of their partition.
        on_done: called once with the batch when its outcome is known, in the task that learns it:
            be short, and do not wait in it. `error` is None if it was stored. None for no report.
        stored: entries of one magic, whole, dense and verified; in magic 2 one that `may_reframe`.
        magic: of `stored`.
        count: records in `stored`.
        records: the records, in place of `stored`.
        codec: that of `stored`, or the one to compress `records` with.
        size: of `records` in bytes, before compression.

    Attributes:
        failed: how many of its records were not stored, when its outcome is reported.
    """

    __slots__ = (
        "_codec",
        "_count",
        "_on_done",
        "_parts_left",
        "_stored",
        "_stored_magic",
        "_whole",
        "failed",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        on_done: OnDone | None,
        *,
        stored: bytes | memoryview = b"",
        magic: int = -1,
        count: int = 0,
        records: Sequence[Unsent] = (),
        codec: Codec = Codec.NONE,
        size: int | None = None,
    ) -> None:
        super().__init__(topic, partition, 0.0)
        self._stored = stored
        self._stored_magic = magic
        self._count = count or len(records)
        self._codec = codec
        self._on_done = on_done
        self._whole: EncodedBatch | None = None
        self._parts_left = 0
        self.failed = 0
        self.records = list(records)
        self.size = size if size is not None else len(stored)
        self.announced = True  # handlers see only single messages

    def __len__(self) -> int:
        return self._count

    def keyless(self) -> int:
        """Return how many of its records have no key."""
        self._decode()
        return super().keyless()

    def build(
        self,
        magic: int,
        codec: Codec,
        level: int | None,
        *,
        produce_version: int = EVERY_CODEC,
        transactional: bool = False,
    ) -> bytes:
        """Encode for a broker; `stored` in the broker's format passes as it is.

        Raises:
            UnsupportedForMessageFormat: the broker's format has no headers, and a record has some.
        """
        if self.data is not None and self.magic == magic:
            return self.data
        takes = self._codec.first_magic <= magic and self._codec.produce_since <= produce_version
        if self._stored_magic == magic and takes:
            self.data = (
                reframe(
                    self._stored,
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    base_sequence=self.base_sequence,
                    is_transactional=transactional,
                )
                if magic == 2
                else bytes(self._stored)
            )
            self.magic = magic
            return self.data
        self._decode()
        if magic < 2 and any(record[3] for record in self.records):
            raise UnsupportedForMessageFormat(
                f"{self.where}: message format {magic} of this broker has no headers, and there "
                "are records with headers"
            )
        kept = self._codec
        if not takes:
            self._codec = codec or Codec.GZIP
        try:
            return super().build(
                magic,
                self._codec,
                level if self._codec is codec else None,
                transactional=transactional,
            )
        finally:
            self._codec = kept

    def decoded(self, codec: Codec, allowed: Collection[Codec]) -> tuple[Sequence[Unsent], Codec]:
        self._decode()
        return self.records, self._codec if self._codec in allowed else codec or Codec.GZIP

    def _decode(self) -> None:
        """Decode `stored` into records."""
        if self._stored_magic < 0:
            return
        lists = decode_lists(self._stored)
        if lists.error is not None:
            raise lists.error
        self.records = unsent_records(lists)
        self._stored, self._stored_magic = b"", -1

    def split(self) -> list[Batch]:
        """Return two batches with half of the records each, in order and numbered on."""
        self._decode()
        middle = len(self.records) // 2
        whole = self._whole or self
        whole._parts_left += 2 if whole is self else 1
        halves: list[Batch] = []
        for start, records in ((0, self.records[:middle]), (middle, self.records[middle:])):
            half = EncodedBatch(
                self.topic,
                self.partition,
                None,  # the whole batch reports for its parts
                records=records,
                codec=self._codec,
                size=self.size * len(records) // len(self.records),
            )
            half._whole = whole
            self._hand_on(half, start)
            halves.append(half)
        halves[1].size = self.size - halves[0].size
        return halves

    def wake(self) -> None:
        """Report the outcome."""
        whole = self._whole
        if whole is None:
            if self.error is not None and not self.failed:
                self.failed = self._count
            on_done, self._on_done = self._on_done, None
            self._stored, self.records = b"", []
            if on_done is not None:
                on_done(self)
            return
        # Batches of one partition are resolved one after the other.
        if self.error is not None:
            whole.error = whole.error or self.error
            whole.failed += self._count
        whole._parts_left -= 1
        if not whole._parts_left:
            whole.resolved = True
            whole.base_offset = -1
            whole.wake()


def unsent_records(lists: RecordLists) -> list[Unsent]:
    """Return decoded records as a producer takes them."""
    headers = repeat(()) if lists.headers is None else lists.headers
    return list(zip(lists.keys, lists.values, lists.timestamps, headers, strict=False))
