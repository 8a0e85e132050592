"""Rows of the table by partition and offset: taken back, and counted.

Invariant: rows are chosen by the columns `topic`, `partition` and `offset` (`position` in Kafka
0.7), never by files: a file may hold rows of many partitions.
"""

from collections.abc import Mapping

from spark_loader.lake.contents import Held, held_in_file
from spark_loader.lake.ledger import Entry
from spark_loader.lake.table import LakeTable
from spark_loader.lake.table_files import LiveFile
from spark_loader.reading.positions import TopicPartition
from spark_loader.storage.files import LakeFileSystem, join
from zkbroker.types import Partition07


def predicate(cuts: Mapping[TopicPartition, int]) -> str:
    """Return the SQL that is true of rows at or beyond an offset of their partition."""
    return " OR ".join(
        f'("topic" = \'{source.topic}\' AND "partition" = {int(source.partition)} AND '
        f'"{_column(source)}" >= {cut})'
        for source, cut in sorted(cuts.items())
    )


def _column(source: TopicPartition) -> str:
    return "position" if isinstance(source.partition, Partition07) else "offset"


def concerned(files: list[LiveFile], cuts: Mapping[TopicPartition, int]) -> list[LiveFile]:
    """Return the files that may hold rows at or beyond an offset of their partition."""
    return [
        file
        for file in files
        if any(
            file.topic == source.topic and file.may_hold(int(source.partition), cut)
            for source, cut in cuts.items()
        )
    ]


def take_back(table: LakeTable, entry: Entry) -> None:
    """Remove the rows that a rewind takes back, as far as they are still there."""
    cuts = cuts_of(entry)
    files = concerned(table.files(), cuts)
    if files:
        table.delete(None, predicate(cuts), files)


def cuts_of(entry: Entry) -> dict[TopicPartition, int]:
    """Return from where on a rewind takes offsets back, by partition."""
    return {each.source: each.start for each in entry.ranges}


def held(
    filesystem: LakeFileSystem, output: str, files: list[LiveFile]
) -> dict[TopicPartition, list[Held]]:
    """Return what files of the table hold, by topic and partition, from their contents."""
    found: dict[TopicPartition, list[Held]] = {}
    for file in files:
        with filesystem.opened(join(output, file.path)) as local:
            for partition, rows in (held_in_file(local, file.path) or {}).items():
                found.setdefault(TopicPartition(file.topic, partition), []).append(rows)
    return found
