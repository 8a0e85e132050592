"""Removes and counts rows of the table by partition and offset.

Invariant: rows are chosen by the columns `topic`, `partition` and `offset` (`position` in Kafka
0.7), never by files: a file may hold rows of many partitions.
"""

from spark_loader.lake.contents import Held, held_in_file
from spark_loader.lake.ledger import Entry
from spark_loader.lake.table import LakeTable
from spark_loader.lake.table_files import LiveFile, concerned
from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.files import LakeFileSystem, join


def take_back(table: LakeTable, entry: Entry) -> None:
    """Remove the rows that a rewind withdraws, as far as they are still there."""
    cuts = cuts_of(entry)
    if concerned(table.files(), cuts):
        table.delete(entry, cuts, published=True)


def cuts_of(entry: Entry) -> dict[TopicPartition, int]:
    """Return the first offset that a rewind withdraws, by partition."""
    return {each.source: each.start for each in entry.ranges}


def held(
    filesystem: LakeFileSystem, output: str, files: list[LiveFile]
) -> dict[TopicPartition, list[Held]]:
    """Return the contents of files of the table, by topic and partition."""
    found: dict[TopicPartition, list[Held]] = {}
    for file in files:
        with filesystem.opened(join(output, file.path)) as local:
            for partition, rows in (held_in_file(local, file.path) or {}).items():
                found.setdefault(TopicPartition(file.topic, partition), []).append(rows)
    return found
