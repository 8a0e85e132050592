"""What a fetch asks for, and one look at all of its partitions.

Invariant: whether something came after a look is seen by where each partition ended then; a look at
what has not grown, under leaderships that go on, needs no other look.
"""

from dataclasses import dataclass

from zkbroker.fileslice import FileSlice
from zkbroker.protocol.messages import FetchRequest
from zkbroker.protocol.messages.fetch import FetchRequestTopic, FetchResponseTopic
from zkbroker.replica.leadership import Leadership
from zkbroker.replica.reads import ReadEnd


@dataclass(slots=True)
class Asked:
    """What one fetch asks for, its session's part included.

    Args:
        request: as it came.
        topics: all partitions to read.
        version: of the request.
        reader: how far this reader sees.
        follower: the broker that fetches, -1 for a client.
    """

    request: FetchRequest
    topics: list[FetchRequestTopic]
    version: int
    reader: ReadEnd
    follower: int


@dataclass(slots=True)
class Reading:
    """One look at all partitions of a fetch.

    Args:
        topics: the answer so far.
        size: bytes of records in it.
        sizes: topic, partition and bytes of those that have any.
        failed: whether a partition has an error.
        leaderships: of the partitions that were read, to wait for.
        ends: where each of these ended for the reader.
        cut: whether there was more than memory to convert it in.
        arriving: whether it is the first look, which tells where a follower is.
    """

    topics: list[FetchResponseTopic]
    size: int
    sizes: list[tuple[str, int, int]]
    failed: bool
    leaderships: list[Leadership]
    ends: list[int]
    cut: bool = False
    arriving: bool = False

    def grown(self, reader: ReadEnd) -> bool:
        """Whether a partition has more for the reader by now, or a leadership is over."""
        return any(
            leadership.over or leadership.end_for(reader) != end
            for leadership, end in zip(self.leaderships, self.ends, strict=True)
        )

    def close(self) -> None:
        """Close the slices of a reading that is not answered."""
        for topic in self.topics:
            for partition in topic.partitions:
                if isinstance(partition.records, FileSlice):
                    partition.records.close()

    def refresh(self, reader: ReadEnd) -> bool:
        """Bring an answer without records up to date; False where it has to be read again.

        A follower asks for all of its partitions again and again, and most of them rest.
        """
        if self.size or self.failed or self.grown(reader):
            return False
        answers = (each for topic in self.topics for each in topic.partitions)
        for answer, leadership in zip(answers, self.leaderships, strict=True):
            mark = answer.high_watermark = leadership.high_watermark
            answer.last_stable_offset = leadership.log.last_stable_offset(mark)
            answer.log_start_offset = leadership.log.log_start_offset
            answer.records = b""
        return True
