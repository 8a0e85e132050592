"""Data directories that are refused, and the settings and checkpoints that recovery uses."""

import errno
import shutil

import pytest

from tests.support.logs import (
    TP,
    HookedFileSystem,
    append,
    crash,
    failing,
    force_recovery,
    make_manager,
    read_all,
    reopened_log,
    started,
    started_log,
)
from zkbroker.admin.log_check import check_logs, repair_logs
from zkbroker.errors import StorageError
from zkbroker.log.replacing import replace_segments, segment_writer
from zkbroker.records import iter_entries

META = "meta.properties"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello world, this is no such file\n", "has no version"),
        (b"", "has no version"),
        (b"version=1\nnode.id=3\ncluster.id=x\n", "version=1"),
        (b"version=0\nbroker.id=three\n", "cannot read"),
        (b"version=0\n\xff\xfe\n", "cannot read"),
    ],
)
def test_invalid_meta_properties_is_refused_and_kept(tmp_path, content, message):
    (tmp_path / META).write_bytes(content)
    with pytest.raises(StorageError, match=message) as refused:
        make_manager(tmp_path).start()
    assert str(tmp_path / META) in str(refused.value)
    assert (tmp_path / META).read_bytes() == content


def test_log_of_kafka_0_7_is_refused_and_kept(tmp_path):
    old = tmp_path / str(TP)
    old.mkdir()
    (old / f"{0:020d}.kafka").write_bytes(b"\0\0\0\x0a" + b"x" * 10)
    with pytest.raises(StorageError, match=r"Kafka 0\.7.*log\.dirs"):
        make_manager(tmp_path).start()
    assert [path.name for path in old.iterdir()] == [f"{0:020d}.kafka"]


@pytest.fixture
def compacted(tmp_path):
    """A compacted log of three segments after a crash; the end of the first was compacted away."""
    with started_log(tmp_path, segment_bytes=1200, cleanup_policy="compact") as log:
        for number in range(20):
            append(log, 1, size=150, prefix=str(number))
        first, second, *_ = log.segments
        data = log.read_bytes(0, 10_000, end=second.base_offset)
        kept = list(iter_entries(data))[:-3]
        writer = segment_writer(log, 0)
        writer.append(data[: kept[-1].position + kept[-1].size])
        writer.finish()
        replace_segments(log, [first], [writer])
        wanted = read_all(log)
        assert len(wanted) == 17
    force_recovery(tmp_path)
    return wanted


def test_recovery_keeps_compacted_log_with_known_settings(tmp_path, compacted):
    requested = []

    def settings(topics):
        requested.append(set(topics))
        return {TP.topic: {"cleanup.policy": "compact"}}

    manager = make_manager(tmp_path)
    assert manager.start(topic_settings=settings) == []
    assert requested == [{TP.topic}]
    assert manager.get(TP).config.compacted
    assert read_all(manager.get(TP)) == compacted
    manager.close()


def test_recovery_keeps_compacted_log_with_unknown_settings(tmp_path, compacted):
    manager = make_manager(tmp_path)
    assert manager.start(topic_settings=lambda topics: {}) == []
    assert read_all(manager.get(TP)) == compacted
    crash(manager)


def test_recovery_truncates_at_gap_of_non_compacted_topic(tmp_path, compacted):
    manager = make_manager(tmp_path)
    cuts = manager.start(topic_settings=lambda topics: {TP.topic: {}})
    assert "are missing" in cuts[0].reason
    assert all(cut.kept_in.exists() for cut in cuts)
    manager.close()


def test_check_and_repair_keep_compacted_log(tmp_path, compacted):
    (check,) = check_logs([tmp_path])
    assert (check.findings, len(check.holes)) == ([], 1)
    assert repair_logs([tmp_path]) == []
    with reopened_log(tmp_path, cleanup_policy="compact") as log:
        assert read_all(log) == compacted


def test_topic_settings_are_not_read_after_clean_stop(tmp_path):
    with started(tmp_path) as manager:
        append(manager.get_or_create(TP), 1)
    manager = make_manager(tmp_path)
    manager.start(topic_settings=lambda topics: pytest.fail("nothing is recovered"))
    manager.close()


def test_high_watermark_checkpoint_round_trips(tmp_path):
    with started(tmp_path) as manager:
        assert manager.checkpointed_high_watermarks() == {}
        log = manager.get_or_create(TP)
        append(log, 2, times=5)
        manager.use_high_watermarks(lambda: {TP: 7})
        manager.upkeep.checkpoint()
        assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nmy-topic 0 7\n"
    for _ in range(2):
        # A manager without high watermarks of its own keeps the stored ones.
        with started(tmp_path) as manager:
            assert manager.checkpointed_high_watermarks() == {TP: 7}
    with reopened_log(tmp_path) as log:
        log.truncate_to(4)
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nmy-topic 0 4\n"


def test_removal_without_descriptors_is_repeated(tmp_path):
    fs = HookedFileSystem()
    with started(tmp_path, fs=fs, file_delete_delay_ms=0) as manager:
        manager.get_or_create(TP)
        manager.delete(TP)
        fs.before["remove_tree"] = failing(errno.EMFILE)
        assert manager.upkeep.run_deletions() == 0
        fs.before.clear()
        assert manager.upkeep.run_deletions() == 1
        assert list(tmp_path.glob(f"{TP}*")) == []


def test_retention_keeps_messages_above_high_watermark(tmp_path):
    with started(tmp_path, segment_bytes=300, retention_bytes=0) as manager:
        log = manager.get_or_create(TP, {})
        append(log, 1, size=150, times=10)
        marks = {}
        manager.use_high_watermarks(lambda: marks)
        assert manager.upkeep.run_retention() == 0
        marks[TP] = 4
        assert manager.upkeep.run_retention() == 4
        assert log.log_start_offset == 4
        marks[TP] = 10
        manager.upkeep.run_retention()
        assert log.log_start_offset == 10


def test_empty_time_index_is_rebuilt(tmp_path):
    times = [1_700_000_000_000 + 1000 * at for at in range(30)]
    with started_log(tmp_path, segment_bytes=1000, index_interval_bytes=100) as log:
        for at in times:
            append(log, 1, timestamp=at)
        assert len(log.segments) > 3
    copy = tmp_path.parent / "copy"
    shutil.copytree(tmp_path, copy)
    for path in (tmp_path / str(TP)).glob("*.timeindex"):
        path.write_bytes(b"")
    findings = next(check_logs([tmp_path])).findings
    assert {each.reason for each in findings} == {"is empty"}
    with reopened_log(tmp_path, segment_bytes=1000, index_interval_bytes=100) as log:
        for offset, at in enumerate(times):
            assert log.offset_for_timestamp(at, 30) == (offset, at)
    assert repair_logs([tmp_path]) == []
    assert next(check_logs([tmp_path])).findings == []
