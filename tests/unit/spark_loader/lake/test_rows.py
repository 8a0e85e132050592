"""Rows are selected by partition and offset, and files by their statistics."""

from spark_loader.lake.rows import held
from spark_loader.lake.table_files import LiveFile, concerned
from spark_loader.reading.positions import TopicPartition
from tests.support.loaded import loaded_files
from tests.support.loading import LOCAL

PLACE = "topic=t/date=2015-05-17/hour=05/"
T0 = TopicPartition("t", 0)


def test_files_without_matching_rows_are_skipped():
    before = LiveFile(PLACE + "a", 1, 1, (0, 0), (2, 4))
    beyond = LiveFile(PLACE + "b", 1, 1, (0, 0), (2, 5))
    other = LiveFile(PLACE + "c", 1, 1, (1, 0), (2, 9))
    unknown = LiveFile(PLACE + "d", 1, 1)
    topic = LiveFile(PLACE.replace("=t", "=u") + "e", 1, 1)
    files = [before, beyond, other, unknown, topic]
    assert concerned(files, {T0: 5}) == [beyond, unknown]


def test_held_offsets_are_read_from_files(run, output):
    run(group_bytes=1 << 20)
    [path] = loaded_files(output)
    file = LiveFile(str(path.relative_to(output)), 1, 140)
    found = held(LOCAL, str(output), [file])
    assert {source: [each.runs for each in files] for source, files in found.items()} == {
        T0: [[(0, 100)]],
        TopicPartition("t", 1): [[(0, 40)]],
    }
