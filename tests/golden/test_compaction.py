"""Our cleaner over logs that genuine brokers compacted: what stays must be the same.

Byte for byte where the codec's library is the same; what a gzip or zstd library makes of the same
records differs, so there every head (but its size and checksum) and every record is compared.
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
# These kept tombstones older than their 100 ms: the segments were written within less.
WRITTEN_AT_ONCE = {
    "c8-full",
    "c8-none",
    "c-v1-lz4",
    "c-v1-none",
    "c-v2-lz4",
    "c-v2-snappy",
    "c-v2-zstd",
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
def test_what_stays_is_what_a_genuine_cleaner_left(tmp_path, topic, stage):
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
def test_readers_find_what_was_to_be_left(tmp_path, version, topic, stage):
    before, _, name = stage
    wanted = expected(version).get(topic, {}).get(name)
    if wanted is None:
        pytest.skip("nothing was recorded of it")
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
    # And again by a broker that was killed: the holes are no damage.
    (opened.directory.parent / ".kafka_cleanshutdown").unlink()
    with started(opened.directory.parent, manager={"cleaner_enable": False}) as manager:
        assert read_all(manager.get(opened.tp)) == found


@pytest.mark.parametrize("topic", topics(OLD))
def test_what_an_old_cleaner_left_is_served_and_stays(tmp_path, topic):
    opened = open_stage(OLD, "2-after-once", topic, tmp_path / "data")
    found = read_all(opened.log)
    wanted = expected(OLD)[topic]["stage1"]
    assert [record.offset for record in found] == wanted["offsets_read_after_cleaning"]
    opened.clean()
    kept = [record for record in found if record.value is not None]
    assert [record for record in read_all(opened.log) if record.value is not None] == kept
    opened.manager.close()
