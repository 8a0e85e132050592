"""A stored log to damage, and the messages that must remain."""

import random
import shutil
from pathlib import Path

from tests.support.logs import TP, make_manager, message_set, read_all
from zkbroker.records import Codec, Record, iter_entries, iter_records

SETTINGS = {"segment_bytes": 700, "index_interval_bytes": 150, "index_max_bytes": 1200}

Entry = tuple[int, int, bytes]
"""Position in its file, end, bytes."""


def store_log(directory: Path, *, seed: int = 1, entries: int = 14) -> None:
    """Write a log of several segments, magics and codecs, and leave it as after a crash."""
    chosen = random.Random(seed)
    manager = make_manager(directory, **SETTINGS)
    manager.start()
    log = manager.get_or_create(TP)
    codecs = [Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
    for index in range(entries):
        log.append_as_leader(
            message_set(
                chosen.randint(1, 4),
                magic=chosen.randint(0, 2),
                codec=chosen.choice(codecs),
                size=chosen.randint(1, 60),
                prefix=f"{index}-",
                timestamp=1_700_000_000_000 + chosen.randint(0, 5000),
            ),
            leader_epoch=0,
        )
    manager.abandon()
    (directory / ".lock").unlink()


def copy_log(source: Path, target: Path) -> None:
    """Make a copy to damage."""
    shutil.copytree(source, target)


def log_files(directory: Path) -> list[Path]:
    """Return the log files of the partition, ascending."""
    return sorted((directory / str(TP)).glob("*.log"))


class Expectation:
    """The messages of a log before the damage."""

    def __init__(self, directory: Path) -> None:
        self.files: dict[str, list[tuple[int, int, list[Record]]]] = {}
        for path in log_files(directory):
            data = path.read_bytes()
            self.files[path.name] = [
                (
                    info.position,
                    info.position + info.size,
                    list(iter_records(data[info.position : info.position + info.size])),
                )
                for info in iter_entries(data)
            ]

    def all_records(self) -> list[Record]:
        """Return every message."""
        return [
            record
            for entries in self.files.values()
            for _, _, records in entries
            for record in records
        ]

    def before(self, name: str, position: int) -> list[Record]:
        """Return the messages of the entries that end at or before a position of a file."""
        found: list[Record] = []
        for file, entries in sorted(self.files.items()):
            for _, end, records in entries:
                if file == name and end > position:
                    return found
                found += records
        return found


def recovered(directory: Path) -> tuple[list[Record], list[Record]]:
    """Open a damaged log, and return its messages before and after one more append."""
    manager = make_manager(directory, **SETTINGS)
    manager.start()
    log = manager.get(TP)
    assert log is not None
    records = read_all(log)
    assert log.log_end_offset == (records[-1].offset + 1 if records else log.log_start_offset)
    for record in random.Random(0).sample(records, min(3, len(records))):
        data = log.read_bytes(record.offset, 1, end=log.log_end_offset)
        assert next(iter_records(data, start_offset=record.offset)) == record
    log.writer.begin_epoch(0, may_fall=True)  # an epoch may be damaged: no checksum covers it
    log.append_as_leader(message_set(1, prefix="after"), leader_epoch=0)
    after = read_all(log)
    manager.close()
    return records, after
