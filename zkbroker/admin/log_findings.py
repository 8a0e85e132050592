"""Problems that a check finds in the files of a log."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with a file.

    Args:
        file: its name.
        position: in the file, in bytes.
        reason: the problem.
        bytes_lost: bytes of log that a repair cuts off, or 0.
        valid_messages_behind: valid messages among those bytes.
    """

    file: Path
    position: int
    reason: str
    bytes_lost: int = 0
    valid_messages_behind: int = 0

    def __str__(self) -> str:
        text = f"{self.file} position {self.position}: {self.reason}"
        if self.bytes_lost:
            text += (
                f"; a repair cuts {self.bytes_lost} bytes, with {self.valid_messages_behind} "
                "valid messages after the damage"
            )
        return text


@dataclass(slots=True)
class LogCheck:
    """The findings in a partition's directory.

    Args:
        directory: of the partition.
        segments: how many log files.
        size_bytes: of valid entries.
        entries: how many of them.
        log_start_offset: base offset of the first segment.
        log_end_offset: offset after the last valid entry.
        findings: the problems, in order.
        holes: offsets, first and last, that are missing between segments: compacted away, or lost;
            only the topic's settings could tell.
    """

    directory: Path
    segments: int = 0
    size_bytes: int = 0
    entries: int = 0
    log_start_offset: int = 0
    log_end_offset: int = 0
    findings: list[Finding] = field(default_factory=list)
    holes: list[tuple[int, int]] = field(default_factory=list)
