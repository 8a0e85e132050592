"""What a fetch asks for, and one look at all of its partitions.

Invariant: whether something came after a look is seen by where each partition ended then; a look at
what has not grown, under roles that go on, needs no other look.
"""

from dataclasses import dataclass

from zkbroker.broker.services import Patience
from zkbroker.fileslice import FileSlice
from zkbroker.protocol.plain import FetchAnswerRow, FetchRow
from zkbroker.replica.reads import ReadEnd
from zkbroker.replica.role import Role

Answers = list[tuple[str, list[FetchAnswerRow]]]
"""What is answered: topics in the order of the request, each with its partitions."""


@dataclass(slots=True)
class Asked:
    """What one fetch asks for.

    Args:
        version: of the request.
        follower: the broker that fetches, negative for a client.
        reader: how far this reader sees.
        min_bytes: for which the request waits.
        max_bytes: of the records of the answer.
        topics: all partitions to read, those of its session included.
        patience: with partitions that the controller has not decided yet; made for the first.
    """

    version: int
    follower: int
    reader: ReadEnd
    min_bytes: int
    max_bytes: int
    topics: list[tuple[str, list[FetchRow]]]
    patience: Patience | None = None


@dataclass(slots=True)
class Reading:
    """One look at all partitions of a fetch.

    Args:
        topics: the answer so far.
        size: bytes of records in it.
        sizes: topic, partition and bytes of those that have any.
        failed: whether a partition has an error.
        roles: of the partitions that were read, to wait for.
        ends: where each of these ended for the reader.
        cut: whether there was more than memory to convert it in.
        arriving: whether it is the first look, which tells where a follower is.
    """

    topics: Answers
    size: int
    sizes: list[tuple[str, int, int]]
    failed: bool
    roles: list[Role]
    ends: list[int]
    cut: bool = False
    arriving: bool = False

    def grown(self, reader: ReadEnd) -> bool:
        """Whether a partition has more for the reader by now, or a role is over."""
        for role, end in zip(self.roles, self.ends, strict=True):
            if role.over or role.end_for(reader) != end:
                return True
        return False

    def close(self) -> None:
        """Close the slices of a reading that is not answered."""
        close_records(self.topics)

    def refresh(self, reader: ReadEnd) -> bool:
        """Bring an answer without records up to date; False where it has to be read again.

        A follower asks for all of its partitions again and again, and most of them rest.
        """
        if self.size or self.failed or self.grown(reader):
            return False
        roles = iter(self.roles)
        for _, rows in self.topics:
            for at, (number, _, _, _, _, aborted, _, _) in enumerate(rows):
                role = next(roles)
                log, mark = role.log, role.high_watermark
                stable = log.last_stable_offset(mark)
                rows[at] = (number, 0, mark, stable, log.log_start_offset, aborted, 0, b"")
        return True


def close_records(answers: Answers) -> None:
    """Close the file slices of an answer that is not sent."""
    for _, rows in answers:
        for row in rows:
            records = row[7]
            if isinstance(records, FileSlice):
                records.close()
