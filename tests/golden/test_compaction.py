"""Our cleaner keeps the same records as genuine brokers that compacted the same logs.

They are equal byte for byte where the codec's library is the same. The output of gzip and zstd
libraries differs: there every header (except size and checksum) and every record is compared.
"""

import pytest

from tests.support.golden_compaction import (
    entries,
    expected,
    open_stage,
    segments,
    stage_files,
    topics,
)
from tests.support.logs import read_all, started

NEW, OLD = "kafka-2.3.0", "kafka-0.8.2.2"
PASSES = [("1-before", "2-after-once", "stage1"), ("3-more-before", "4-after-twice", "stage2")]
OTHER_COMPRESSOR = ("gzip", "zstd", "logappend")
# These kept tombstones older than 100 ms, for their segments were written within less time.
WRITTEN_AT_ONCE = {
    *("c8-full", "c8-none", "c-v1-lz4", "c-v1-none", "c-v2-lz4", "c-v2-snappy", "c-v2-zstd")
}


def times_after_first_pass(version, topic, root):
    """Return the times of the compacted segments' files."""
    opened = open_stage(version, "1-before", topic, root)
    opened.clean()
    paths = sorted(opened.directory.glob("*.log"))
    times = {int(path.stem): path.stat().st_mtime for path in paths[:-1]}
    opened.manager.close()
    if topic in WRITTEN_AT_ONCE:
        return dict.fromkeys(times, max(times.values()))
    return times


@pytest.fixture(params=PASSES, ids=["once", "twice"])
def stage(request):
    return request.param


def cleaned(version, topic, before, tmp_path):
    times = None
    if before.startswith("3"):
        times = times_after_first_pass(version, topic, tmp_path / "first")
    opened = open_stage(version, before, topic, tmp_path / "data", times)
    stats = opened.clean()
    return opened, stats


@pytest.mark.parametrize("topic", topics(NEW))
def test_cleaned_segments_equal_genuine_ones(tmp_path, topic, stage):
    before, after, _ = stage
    opened, stats = cleaned(NEW, topic, before, tmp_path)
    theirs = stage_files(NEW, after, topic)
    mine = {path.name: path.read_bytes() for path in opened.directory.iterdir()}
    assert sorted(segments(mine)) == sorted(segments(theirs))
    for name, data in segments(theirs).items():
        assert entries(mine[name]) == entries(data)
        if not any(codec in topic for codec in OTHER_COMPRESSOR):
            assert mine[name] == data
    indexes = {name: data for name, data in theirs.items() if name.endswith(".txnindex") and data}
    assert {n: data for n, data in mine.items() if n.endswith(".txnindex")} == indexes
    assert stats.end_offset == opened.log.segments[-1].base_offset
    opened.manager.close()
    assert not list(opened.directory.glob("*.cleaned"))


@pytest.mark.parametrize(("version", "topic"), [(v, t) for v in (NEW, OLD) for t in topics(v)])
def test_readers_find_expected_records_after_cleaning(tmp_path, version, topic, stage):
    before, _, name = stage
    wanted = expected(version).get(topic, {}).get(name)
    if wanted is None:
        pytest.skip("not recorded")
    opened, _ = cleaned(version, topic, before, tmp_path)
    found = read_all(opened.log)
    assert [record.offset for record in found] == wanted["offsets_read_after_cleaning"]
    deleted = {record.key.decode() for record in found if record.value is None}
    assert deleted == set(wanted["tombstones_read"])
    latest = {record.key.decode(): record.value for record in found}
    for key, value in wanted["latest"].items():
        if value is None:
            assert latest.get(key) is None
        elif isinstance(value, str):
            assert latest[key].decode() == value
        else:
            assert latest[key] is not None
    opened.manager.close()
    # Recovery after a crash keeps the offset gaps.
    (opened.directory.parent / ".kafka_cleanshutdown").unlink()
    with started(opened.directory.parent, manager={"cleaner_enable": False}) as manager:
        assert read_all(manager.get(opened.tp)) == found


@pytest.mark.parametrize("topic", topics(OLD))
def test_log_of_old_cleaner_is_served_and_kept(tmp_path, topic):
    opened = open_stage(OLD, "2-after-once", topic, tmp_path / "data")
    found = read_all(opened.log)
    wanted = expected(OLD)[topic]["stage1"]
    assert [record.offset for record in found] == wanted["offsets_read_after_cleaning"]
    opened.clean()
    kept = [record for record in found if record.value is not None]
    assert [record for record in read_all(opened.log) if record.value is not None] == kept
    opened.manager.close()
