"""`verify` detects damage to a lake, and accepts concurrent commits."""

import itertools
import json

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from spark_loader import EventTime, LoadError
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.optimize import optimize
from spark_loader.lake.verify import verify
from spark_loader.legacy07.generation import GENERATION
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange
from spark_loader.sink.partition import MapperSink, SinkOptions
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import loaded_files
from tests.support.loading import LOCAL, entry, verified
from tests.unit.spark_loader.legacy07.test_reader import FakeFetcher07
from zkbroker.records.codec import Codec
from zkbroker.records.legacy07 import build_message, build_wrapper
from zkbroker.types import Partition07


@pytest.mark.parametrize("damage", ["change", "shorten", "remove", "repeat", "move"])
def test_verify_reports_damage(run, output, damage, command):
    run()
    assert "no gap, no duplicate" in command("verify", output)
    file = loaded_files(output)[0]
    content = file.read_bytes()
    if damage == "change":
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif damage == "shorten":
        file.write_bytes(content[:-1])
    elif damage == "remove":
        file.unlink()
    elif damage == "repeat":
        twin = file.with_name("twin.parquet")
        twin.write_bytes(content)
        commits = sorted((output / "_delta_log").glob("*.json"))
        lines = map(json.loads, commits[-1].read_text().splitlines())
        [add] = [each["add"] for each in lines if file.name in each.get("add", {}).get("path", "")]
        add["path"] = add["path"].replace(file.name, twin.name)
        later = commits[-1].with_name(f"{len(commits):020d}.json")
        later.write_text(json.dumps({"add": add}) + "\n")
    else:
        moved = CommitProperties(app_transactions=[Transaction("zkbroker:t-0", 7)])
        table = DeltaTable(str(output))
        table.create_write_transaction([], "append", table.schema(), commit_properties=moved)
    with pytest.raises(LoadError, match="problem"):
        command("verify", output)


def test_unreferenced_parquet_file_is_not_a_problem(run, output, command):
    run()
    file = loaded_files(output)[0]
    file.with_name("stranger.parquet").write_bytes(file.read_bytes())
    assert "1 file beside them, for vacuum" in command("verify", output)
    assert verified(output).rows == 140


def test_rows_crc_matches_independent_reader(run, output):
    import zlib

    run()
    values = DeltaTable(str(output)).to_pyarrow_table(columns=["value"]).column(0).to_pylist()
    assert verified(output).rows_crc == sum(map(zlib.crc32, values))


class ActionBeforeListing(CrashingFileSystem):
    """Performs an action before the n-th listing of a directory."""

    def __init__(self, at, happens):
        super().__init__(LOCAL)
        self._left = at
        self._happens = happens

    def names(self, path):
        self._left -= 1
        if self._left == -1:
            self._happens()
        return self.inner.names(path)

    @property
    def happened(self):
        return self._left < 0


@pytest.mark.parametrize("format_", ["parquet", "json"])
def test_concurrent_commit_is_not_a_problem(run, cluster, output, format_):
    run(format=format_)

    def load():
        cluster.append("t", 0, [b"x"])
        run(format=format_)
        checkpoints = Checkpoints(LOCAL, str(output))
        optimize(checkpoints, older_than_hours=0)

    for step in itertools.count():
        filesystem = ActionBeforeListing(step, load)
        report = verify(filesystem, str(output))
        assert report.problems == [], step
        assert report.rows in (140 + step, 141 + step)
        if not filesystem.happened:
            break
    assert step > 3


@pytest.mark.parametrize(
    "entries",
    [
        ([b"bad", b"1"], [b"2", b"bad"]),
        ([b"1", b"bad"], [b"bad", b"2"]),
        ([b"bad", b"1"], [b"bad", b"2"]),
    ],
)
def test_quarantined_messages_inside_entries_of_0_7_are_not_a_problem(output, lake, entries):
    log = b"".join(
        build_wrapper(Codec.GZIP, b"".join(map(build_message, each))) for each in entries
    )
    source = TopicPartition("t", Partition07(3, 1))
    options = SinkOptions(event_time=EventTime.regex(r"^\d+$", "s"))
    sink = MapperSink(LOCAL, lake.output, lake.staging(1), "token", options)
    sink.begin(source)
    reader = GENERATION.reader(FakeFetcher07(log), positions=True, fetch_bytes=len(log))
    whole = OffsetRange(*source, 0, len(log))
    for batch in reader.read(whole):
        sink.write(batch)
    sink.finish()
    lake.unstage(sink.quarantined)
    published = entry(
        1, ranges=(whole,), positions={source: whole.until}, quarantined=tuple(sink.quarantined)
    )
    lake.table.commit(published, sink.tabled, sink.schema)
    report = verified(output)
    assert (report.rows, report.quarantined) == (2, 2)


def test_files_of_uncommitted_run_are_not_a_problem(run, cluster, output):
    run(format="json")
    cluster.append("t", 0, [b"x"])
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, "before commit of the table"), format="json")
    assert verify(LOCAL, str(output)).problems == []
    stray = output / "topic=t/date=2020-01-01/hour=00/part.json"
    stray.parent.mkdir(parents=True)
    stray.write_text("{}")
    assert [f"{stray.relative_to(output)} is there but no commit names it"] == verify(
        LOCAL, str(output)
    ).problems
