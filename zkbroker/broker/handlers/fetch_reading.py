"""The request of a fetch, and one reading of all of its partitions.

Invariant: a reading records where each partition ended, which shows whether data came after it. If
no partition has grown and no role is over, the reading is still valid.
"""

from dataclasses import dataclass

from zkbroker.broker.services import Patience
from zkbroker.fileslice import FileSlice
from zkbroker.protocol.plain import FetchAnswerRow, FetchRow
from zkbroker.replica.reads import ReadEnd
from zkbroker.replica.role import Role

Answers = list[tuple[str, list[FetchAnswerRow]]]
"""The answer: topics in the order of the request, each with its partitions."""


@dataclass(slots=True)
class Asked:
    """The request of one fetch.

    Args:
        version: of the request.
        follower: the broker that fetches, negative for a client.
        reader: how far this reader sees.
        min_bytes: how many bytes the request waits for.
        max_bytes: limit of the records in the answer.
        topics: all partitions to read, including those of its session.
        patience: for partitions that the controller has not decided yet; created for the first.
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
    """One reading of all partitions of a fetch.

    Args:
        topics: the answer so far.
        size: bytes of records in it.
        sizes: topic, partition and bytes, for partitions with records.
        failed: whether a partition has an error.
        roles: of the partitions that were read, to wait for.
        ends: where each of these ended for the reader.
        cut: whether the memory for conversion was too small for all records.
        arriving: whether it is the first reading, which records a follower's position.
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
        """Whether a partition now has more for the reader, or a role is over."""
        for role, end in zip(self.roles, self.ends, strict=True):
            if role.over or role.end_for(reader) != end:
                return True
        return False

    def close(self) -> None:
        """Close the slices of a reading that is not used."""
        close_records(self.topics)

    def refresh(self, reader: ReadEnd) -> bool:
        """Update an answer without records; False if the partitions must be read again.

        A follower asks for all of its partitions again and again, and most of them do not change.
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
