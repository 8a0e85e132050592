"""Data directories of genuine brokers are opened in place and served unchanged."""

import random
import re
import shutil
from pathlib import Path

import pytest

from tests.support.logs import append, make_manager, read_all, started
from zkbroker.admin.dump_log import DumpOptions, dump_log
from zkbroker.log import TopicPartition
from zkbroker.log.segments.index import OffsetIndex
from zkbroker.records import Codec, iter_entries, iter_records

SEGMENTS = Path(__file__).parent / "data" / "segments"
VERSIONS = ["kafka-0.8.2.2", "kafka-2.3.0"]


def data_directory(version: str, target: Path, *, clean: bool) -> Path:
    """Copy the data directory of a genuine broker of a version."""
    shutil.copytree(SEGMENTS / version, target, ignore=shutil.ignore_patterns("*.dump.txt"))
    ends = {}
    for partition in sorted(target.iterdir()):
        last = max(partition.glob("*.log"))
        end = int(last.stem)
        for entry in iter_entries(last.read_bytes()):
            end = entry.last_offset + 1
        ends[TopicPartition.parse(partition.name)] = end
    if clean:
        (target / ".kafka_cleanshutdown").touch()
        lines = [f"{tp.topic} {tp.partition} {end}" for tp, end in ends.items()]
        text = "\n".join(["0", str(len(lines)), *lines]) + "\n"
        (target / "recovery-point-offset-checkpoint").write_text(text)
        (target / "replication-offset-checkpoint").write_text(text)
    (target / "meta.properties").write_text("#\nversion=0\nbroker.id=0\n")
    return target


def messages(version: str, tp: TopicPartition) -> list:
    return [
        record
        for path in sorted((SEGMENTS / version / str(tp)).glob("*.log"))
        for record in iter_records(path.read_bytes())
    ]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("version", VERSIONS)
def test_genuine_directory_is_served_in_place(tmp_path, version, clean):
    root = data_directory(version, tmp_path / "data", clean=clean)
    files = {path: path.read_bytes() for path in root.glob("*/*.log")}
    manager = make_manager(root)
    assert manager.start(broker_id=0) == []
    logs = manager.logs()
    assert {str(tp) for tp in logs} == {path.name for path in (SEGMENTS / version).iterdir()}
    assert manager.stored_broker_id == 0
    for tp, log in logs.items():
        stored = messages(version, tp)
        assert read_all(log) == stored
        for record in random.Random(1).sample(stored, min(60, len(stored))):
            data = log.read_bytes(record.offset, 1, end=log.log_end_offset)
            assert next(iter_records(data, start_offset=record.offset)) == record
    for path, data in files.items():
        assert path.read_bytes() == data
    manager.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_append_continues_genuine_log(tmp_path, version):
    root = data_directory(version, tmp_path / "data", clean=True)
    with started(root) as manager:
        for tp, log in manager.logs().items():
            end = log.log_end_offset
            assert append(log, 2).base_offset == end
            assert len(read_all(log)) == len(messages(version, tp)) + 2
    with started(root) as manager:
        for tp, log in manager.logs().items():
            assert len(read_all(log)) == len(messages(version, tp)) + 2


def test_genuine_messages_are_found_by_time(tmp_path):
    root = data_directory("kafka-2.3.0", tmp_path / "data", clean=True)
    with started(root) as manager:
        for topic in ("g-v1-access", "g-v2-access"):
            log = manager.get(TopicPartition(topic, 0))
            records = read_all(log)
            times = sorted({record.timestamp for record in records})
            for timestamp in times[:: max(len(times) // 60, 1)]:
                first = next(each for each in records if each.timestamp >= timestamp)
                found = log.offset_for_timestamp(timestamp, log.log_end_offset)
                assert found == (first.offset, first.timestamp)
            assert log.offset_for_timestamp(times[-1] + 1, log.log_end_offset) is None


@pytest.mark.parametrize("topic", ["g-v1-access", "g-v2-access"])
def test_rebuilt_index_equals_genuine_one_for_single_entry_appends(tmp_path, topic):
    root = data_directory("kafka-2.3.0", tmp_path / "data", clean=False)
    golden = {
        path.name: path.read_bytes()
        for path in (SEGMENTS / "kafka-2.3.0" / f"{topic}-0").glob("*.index")
    }
    with started(root):
        pass
    for name, data in golden.items():
        rebuilt = (root / f"{topic}-0" / name).read_bytes()
        if topic == "g-v2-access":
            assert rebuilt == data
        assert {len(rebuilt) % 8, len(data) % 8} == {0}


def test_producers_of_genuine_log_are_known_after_recovery(tmp_path):
    root = data_directory("kafka-2.3.0", tmp_path / "data", clean=False)
    with started(root) as manager:
        log = manager.get(TopicPartition("g-v2-idempotent", 0))
        entries = list(iter_entries(log.read_bytes(0, 1 << 20, end=log.log_end_offset)))
        produced = {entry.producer_id for entry in entries if entry.producer_id >= 0}
        assert set(log.producers.producer_ids()) == produced
        assert produced


def test_index_files_are_preallocated_and_trimmed_at_stop(tmp_path):
    manager = make_manager(tmp_path, index_interval_bytes=200)
    manager.start()
    tp = TopicPartition("t", 0)
    log = manager.get_or_create(tp)
    append(log, 3, times=50)
    index, times = (log.path / f"{0:020d}{suffix}" for suffix in (".index", ".timeindex"))
    assert index.stat().st_size == 10 * 1024 * 1024
    assert times.stat().st_size == 10 * 1024 * 1024 // 12 * 12
    count = log.segments[0].files.offsets.count
    manager.close()
    assert index.stat().st_size == 8 * count > 0
    assert times.stat().st_size % 12 == 0
    data = (log.path / f"{0:020d}.log").read_bytes()
    ends = {entry.last_offset: entry.position for entry in iter_entries(data)}
    stored = OffsetIndex(manager.fs, index, 0)
    assert all(ends[offset] == position for offset, position in stored.entries())
    stored.close()


def test_text_files_have_genuine_form(tmp_path):
    with started(tmp_path) as manager:
        manager.write_meta(3, "abcDEF_-0123456789abcd")
        log = manager.get_or_create(TopicPartition("a-b", 1))
        manager.use_high_watermarks(lambda: {log.topic_partition: 2})
        append(log, 3)
        assert (log.path / "leader-epoch-checkpoint").read_bytes() == b"0\n1\n0 0\n"
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\na-b 1 3\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\na-b 1 2\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b""
    meta = (tmp_path / "meta.properties").read_text().splitlines()
    assert re.fullmatch(r"#\w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4}", meta[0])
    assert meta[1:] == ["version=0", "broker.id=3", "cluster.id=abcDEF_-0123456789abcd"]
    # The snapshot of a log without idempotent producers, byte for byte.
    golden = SEGMENTS / "kafka-2.3.0" / "g-v2-access-0" / "00000000000000001105.snapshot"
    assert (tmp_path / "a-b-1" / f"{3:020d}.snapshot").read_bytes() == golden.read_bytes()


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_dump_tool_finds_no_fault_in_our_files(tmp_path, magic):
    with started(tmp_path, segment_bytes=20_000, index_interval_bytes=500) as manager:
        log = manager.get_or_create(TopicPartition("t", 0))
        for at in range(100):
            codec = Codec.GZIP if at % 3 == 0 else Codec.NONE
            append(log, 5, magic=magic, codec=codec, timestamp=1000 * at)
        assert len(log.segments) > 2
    endings = ("*.*index", "*.snapshot", "*.log")
    files = [path for ending in endings for path in sorted((tmp_path / "t-0").glob(ending))]
    complaints = []
    lines = list(dump_log(files, DumpOptions(deep_iteration=True), report=complaints.append))
    assert len(lines) > 500
    assert complaints == []
    assert not [line for line in lines if "isvalid: false" in line]
