import errno
import os
import sys
import threading

import pytest

from tests.support.logs import (
    TP,
    Clock,
    EagerRuntime,
    HookedFileSystem,
    ScarceFileSystem,
    append,
    crash,
    flip_bit,
    force_recovery,
    make_manager,
    open_paths,
    read_all,
    reopened_log,
    start_log,
    started,
    started_log,
)
from tests.support.process import run_program
from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log import TopicPartition
from zkbroker.log.checkpoints import read_meta, read_offsets
from zkbroker.log.durability import Durability
from zkbroker.log.names import HIGH_WATERMARKS, RECOVERY_POINTS, START_OFFSETS
from zkbroker.log.upkeep import LogUpkeep
from zkbroker.records import iter_entries

PARTITIONS = [TopicPartition("t", at) for at in range(6)]


def store_partitions(*directories):
    """Store one message in each partition."""
    with started(*directories) as manager:
        for tp in PARTITIONS:
            append(manager.get_or_create(tp), 1)


def failing_below(directory, code):
    """Return hooks that let every change below a directory fail; a full disk writes a part."""

    def check(path):
        if str(path).startswith(str(directory)):
            raise OSError(code, "broken", str(path))

    def path_of(fd):
        return os.readlink(f"/proc/self/fd/{fd}")

    def write(fd, data):
        if path_of(fd).startswith(str(directory)):
            os.write(fd, data[:10])
        check(path_of(fd))

    return {
        "open": lambda path, flags: check(path) if flags & (os.O_WRONLY | os.O_RDWR) else None,
        "write": write,
        "fsync": lambda fd: check(path_of(fd)),
        "rename": lambda source, target: check(source),
    }


def test_partitions_are_spread_over_directories_and_reopened(tmp_path):
    directories = [tmp_path / name for name in "abc"]
    store_partitions(*directories)
    assert [len(list(each.glob("t-*"))) for each in directories] == [2, 2, 2]
    with started(*directories) as manager:
        assert set(manager.logs()) == set(PARTITIONS)
        assert all(log.log_end_offset == 1 for log in manager.logs().values())


def test_directory_in_use_is_refused_in_any_process(tmp_path):
    with started(tmp_path):
        with pytest.raises(StorageError, match="already in use"):
            make_manager(tmp_path).start()
        result = run_program(
            """
            import sys
            from pathlib import Path
            from zkbroker.errors import StorageError
            from zkbroker.log.lock import DirectoryLock
            try:
                DirectoryLock(Path(sys.argv[1]))
            except StorageError as error:
                print(error)
            """,
            str(tmp_path),
        )
        assert "in use by another broker" in result.stdout
    with started(tmp_path):
        pass


def test_refused_start_releases_lock(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties").write_text("version=0\nbroker.id=7\n")
    with pytest.raises(ConfigError, match=r"broker\.id=3 does not match broker\.id=7"):
        make_manager(tmp_path / "a", tmp_path / "b").start(broker_id=3)
    with started(tmp_path / "a", tmp_path / "b") as manager:
        assert manager.stored_broker_id == 7


def test_directories_of_different_clusters_are_refused(tmp_path):
    for name, cluster in (("a", "one"), ("b", "two")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(f"version=0\ncluster.id={cluster}\n")
    with pytest.raises(ConfigError, match="different brokers"):
        make_manager(tmp_path / "a", tmp_path / "b").start()
    with started(tmp_path / "a") as manager:
        with pytest.raises(ConfigError, match="belong to cluster one"):
            manager.write_meta(1, "two")
        manager.write_meta(1, "one")
    with started(tmp_path / "a") as manager:
        assert manager.stored_broker_id == 1
        assert read_meta(tmp_path / "a").cluster_id == "one"


def test_partition_in_two_directories_is_refused(tmp_path):
    for name in "ab":
        with started(tmp_path / name) as manager:
            manager.get_or_create(TP)
    with pytest.raises(StorageError, match="remove one"):
        make_manager(tmp_path / "a", tmp_path / "b").start()


def test_clean_stop_mark_is_removed_by_next_start(tmp_path):
    mark = tmp_path / ".kafka_cleanshutdown"
    with started(tmp_path):
        assert not mark.exists()
    assert mark.exists()
    manager = make_manager(tmp_path)
    manager.start()
    assert not mark.exists()
    crash(manager)
    assert not mark.exists()


def test_clean_stop_skips_recovery(tmp_path):
    with started_log(tmp_path, segment_bytes=1000) as log:
        append(log, 3, times=20)
        path = log.segments[1].path(".log")
    flip_bit(path, 40)
    manager = make_manager(tmp_path)
    assert manager.start() == []
    manager.close()
    force_recovery(tmp_path)
    manager = make_manager(tmp_path)
    assert manager.start()[0].file == path
    manager.close()


def test_recovery_begins_at_recovery_point(tmp_path):
    manager, log = start_log(tmp_path, segment_bytes=1000)
    append(log, 3, times=20)
    log.flush()
    manager.upkeep.checkpoint()
    append(log, 3, times=5)
    path = log.segments[0].path(".log")
    crash(manager)
    flip_bit(path, 40)
    again = make_manager(tmp_path)
    # The damage is below the recovery point, where recovery does not read.
    assert again.start() == []
    assert again.get(TP).log_end_offset == 75
    again.close()


def test_compacted_log_is_truncated_at_missing_segment_end(tmp_path):
    settings = {"segment_bytes": 1000, "cleanup_policy": "compact", "runtime": EagerRuntime()}
    manager, log = start_log(tmp_path, **settings)
    append(log, 3)
    log.flush()
    manager.upkeep.checkpoint()
    append(log, 3, times=9)
    path, following = log.segments[1].path(".log"), log.segments[2].base_offset
    crash(manager)
    # A power cut may leave one unflushed file shorter and the next one complete.
    last = list(iter_entries(path.read_bytes()))[-1]
    os.truncate(path, last.position)
    again = make_manager(tmp_path, **settings)
    first, *_ = again.start()
    assert (first.file, first.offset) == (path, last.base_offset)
    assert first.reason == f"offsets {last.base_offset} to {following - 1} are missing"
    assert [record.offset for record in read_all(again.get(TP))] == list(range(last.base_offset))
    again.close()


def test_deleted_partition_files_are_removed_after_delay(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, file_delete_delay_ms=1000) as manager:
        log = manager.get_or_create(TP)
        append(log, 3)
        held = log.read(0, 1000, end=log.log_end_offset)
        manager.delete(TP)
        assert manager.get(TP) is None
        with pytest.raises(StorageError, match="deleted"):
            append(log, 1)
        (doomed,) = tmp_path.glob("*-delete")
        assert doomed.name.startswith("my-topic-0.")
        assert manager.get_or_create(TP).log_end_offset == 0
        clock.advance(1001)
        manager.upkeep.run_deletions()
        assert list(tmp_path.glob("*-delete")) == []
        held.slice.close()
        manager.delete(TopicPartition("unknown", 0))


def test_deleted_partition_stays_deleted_after_restart(tmp_path):
    manager = make_manager(tmp_path)
    manager.start()
    append(manager.get_or_create(TP), 3)
    manager.delete(TP)
    crash(manager)
    with started(tmp_path) as manager:
        assert manager.logs() == {}
    assert list(tmp_path.glob("*-delete")) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_failing_disk_takes_only_its_partitions_offline(tmp_path, code):
    fs = HookedFileSystem()
    manager = make_manager(tmp_path / "a", tmp_path / "b", fs=fs)
    manager.start()
    reports = []
    manager.on_offline(lambda *args: reports.append(args))
    logs = {tp: manager.get_or_create(tp) for tp in PARTITIONS}
    for log in logs.values():
        append(log, 2)
    broken = [tp for tp, log in logs.items() if log.path.parent == tmp_path / "a"]
    assert len(broken) == 3
    fs.before |= failing_below(tmp_path / "a", code)
    for tp in broken:
        with pytest.raises(StorageError, match="cannot be used"):
            append(logs[tp], 2)
        assert logs[tp].offline
        with pytest.raises(StorageError):
            logs[tp].durability.wait(2, 0)
    assert [(path, set(tps)) for path, tps, _ in reports] == [(str(tmp_path / "a"), set(broken))]
    assert list(manager.offline_dirs()) == [str(tmp_path / "a")]
    for tp in set(PARTITIONS) - set(broken):
        assert append(logs[tp], 2).base_offset == 2
    assert manager.get_or_create(TopicPartition("new", 0)).path.parent == tmp_path / "b"
    with pytest.raises(StorageError):
        manager.get_or_create(broken[0]).read(
            0, 100, end=manager.get_or_create(broken[0]).log_end_offset
        )
    with pytest.raises(StorageError):
        manager.delete(broken[0])
    manager.upkeep.run_retention()
    manager.upkeep.flush_due()
    manager.upkeep.checkpoint()
    manager.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()
    with started(tmp_path / "a", tmp_path / "b") as again:
        assert all(len(read_all(again.get(tp))) == 2 for tp in broken)


def test_unusable_directory_is_offline_from_start(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "c" / ".lock").mkdir(parents=True)
    unusable = [tmp_path / "file" / "below", tmp_path / "c"]
    with started(*unusable, tmp_path / "b") as manager:
        assert list(manager.offline_dirs()) == [str(each) for each in unusable]
        # Its log may be in an unreadable directory; an empty log elsewhere would replace it.
        with pytest.raises(StorageError, match="could not be read"):
            manager.get_or_create(TP)
        append(manager.get_or_create(TP, is_new=True), 1)
        append(manager.get_or_create(TP), 1)
    with pytest.raises(StorageError, match="no data directory"):
        make_manager(*unusable).start()


def test_missing_segment_file_fails_only_its_reads(tmp_path):
    with started_log(tmp_path, segment_bytes=1000) as log:
        append(log, 3, times=10)
    with started(tmp_path, segment_bytes=1000) as manager:
        log = manager.get(TP)
        log.segments[0].path(".log").unlink()
        with pytest.raises(StorageError):
            log.read(0, 100, end=log.log_end_offset)
        assert manager.offline_dirs() == {}
        assert append(log, 3).base_offset == 30


def test_closing_log_refuses_appends(tmp_path):
    refused = []

    def append_during_last_flush(fd):
        if log.offline and not refused:
            with pytest.raises(StorageError, match="closed"):
                append(log, 1)
            refused.append(fd)

    with started_log(tmp_path, fs=HookedFileSystem(fsync=append_during_last_flush)) as log:
        append(log, 3)
    assert refused
    with reopened_log(tmp_path) as log:
        assert log.log_end_offset == 3


def test_topic_settings_apply_to_open_and_new_logs(tmp_path):
    with started(tmp_path, overrides={"my-topic": {"segment.bytes": "1000"}}) as manager:
        log = manager.get_or_create(TP)
        assert log.config.segment_bytes == 1000
        manager.update_topic_config("my-topic", {"segment.bytes": "2000", "max.message.bytes": "9"})
        assert (log.config.segment_bytes, log.config.max_message_bytes) == (2000, 9)
        later = manager.get_or_create(TP._replace(partition=1))
        assert later.config.segment_bytes == 2000
        with pytest.raises(ConfigError, match=r"segment\.bytes='x' is not allowed"):
            manager.update_topic_config("my-topic", {"segment.bytes": "x"})
        assert log.config.segment_bytes == 2000


def test_other_files_in_data_directory_are_untouched(tmp_path):
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    with started(tmp_path) as manager:
        assert manager.logs() == {}
    assert (tmp_path / "lost+found").is_dir()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_damaged_recovery_checkpoint_loses_no_message(tmp_path):
    with started(tmp_path) as manager:
        append(manager.get_or_create(TP), 5)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n3\nmy-topic 0 x\n")
    with reopened_log(tmp_path) as log:
        assert log.log_end_offset == 5


def test_missing_descriptors_fail_calls_and_not_directory(tmp_path):
    fs = ScarceFileSystem()
    with started(tmp_path, fs=fs, segment_bytes=1000, manager={"open_segments": 1}) as manager:
        log = manager.get_or_create(TP)
        append(log, 3, times=10)
        fs.left = 0
        with pytest.raises(StorageError, match="Too many open files"):
            append(log, 3, times=5)
        with pytest.raises(StorageError, match="Too many open files"):
            log.read(0, 100, end=log.log_end_offset)
        fs.left = None
        end = log.log_end_offset
        assert manager.offline_dirs() == {}
        append(log, 3, times=5)
        assert [record.offset for record in read_all(log)] == list(range(end + 15))


def test_truncation_does_not_begin_without_its_checkpoint(tmp_path):
    fs = ScarceFileSystem(written_ending=".tmp")
    with started_log(tmp_path, fs=fs) as log:
        append(log, 1, times=10)
        log.flush()
        fs.left = 0
        with pytest.raises(StorageError, match="Too many open files"):
            log.truncate_to(4)
        assert log.log_end_offset == 10
        fs.left = None
        assert log.truncate_to(4) == 4
        assert [record.offset for record in read_all(log)] == [0, 1, 2, 3]


def test_partition_is_not_made_again_before_its_checkpoints_forget_it(tmp_path):
    fs = ScarceFileSystem(written_ending=".tmp")
    with started(tmp_path, fs=fs) as manager:
        append(manager.get_or_create(TP), 10)
        manager.get_or_create(TP).flush()
        manager.get_or_create(TP).roll()
        manager.upkeep.checkpoint()
        manager.delete(TP)
        fs.left = 0
        for _ in range(2):
            with pytest.raises(StorageError, match="Too many open files"):
                manager.get_or_create(TP)
        fs.left = None
        manager.get_or_create(TP)
        assert TP not in read_offsets(tmp_path / RECOVERY_POINTS)


@pytest.mark.parametrize("full", [False, True])
def test_high_watermarks_that_could_not_be_written_are_written_later(tmp_path, full):
    fs = ScarceFileSystem(written_ending=".tmp")
    with started(tmp_path, fs=fs) as manager:
        append(manager.get_or_create(TP), 3)
        manager.use_high_watermarks(lambda: {TP: 2})
        fs.left = 0
        if full:
            manager.upkeep.checkpoint()
        else:
            manager.checkpoint_high_watermarks()
        fs.left = None
        manager.checkpoint_high_watermarks()
        assert read_offsets(tmp_path / HIGH_WATERMARKS) == {TP: 2}


def test_partition_made_again_after_a_failed_checkpoint_begins_at_0(tmp_path):
    fs = ScarceFileSystem(written_ending=".tmp")
    manager = make_manager(tmp_path, fs=fs)
    manager.start()
    log = manager.get_or_create(TP)
    append(log, 1, times=10)
    log.flush()
    log.advance_start_to(4)
    manager.upkeep.checkpoint()
    manager.delete(TP)
    fs.left = 0
    manager.upkeep.checkpoint()
    fs.left = None
    log = manager.get_or_create(TP, is_new=True)
    append(log, 1, times=10)
    log.flush()
    manager.abandon()
    with reopened_log(tmp_path) as log:
        assert log.log_start_offset == 0


def test_repeated_start_offset_is_stored_if_the_first_call_could_not_store_it(tmp_path):
    fs = ScarceFileSystem(written_ending=f"{START_OFFSETS}.tmp")
    with started_log(tmp_path, fs=fs) as log:
        append(log, 1, times=10)
        fs.left = 0
        for _ in range(2):
            with pytest.raises(StorageError, match="Too many open files"):
                log.advance_start_to(4)
        fs.left = None
        log.advance_start_to(4)
        assert read_offsets(tmp_path / START_OFFSETS) == {TP: 4}


def test_emptied_log_begins_at_its_new_offset_without_its_checkpoint(tmp_path):
    # An error would leave its replica with the high watermark of the log that is gone.
    fs = ScarceFileSystem(written_ending=f"{START_OFFSETS}.tmp")
    with started_log(tmp_path, fs=fs) as log:
        append(log, 1, times=10)
        fs.left = 0
        log.truncate_fully_and_start_at(3)
        assert (log.log_start_offset, log.log_end_offset) == (3, 3)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOENT])
def test_truncation_that_cannot_open_a_segment_changes_nothing(tmp_path, number):
    def refuse_first(path, flags):
        if path == log.segments[0].path(".log"):
            raise OSError(number, "cannot be opened", str(path))

    fs = HookedFileSystem()
    with started(tmp_path, fs=fs, segment_bytes=1500, manager={"open_segments": 1}) as manager:
        log = manager.get_or_create(TP)
        append(log, 1, times=40)
        segments = len(log.segments)
        assert segments > 3
        log.directory.open_files.forget(log.segments[0])
        fs.before["open"] = refuse_first
        with pytest.raises(StorageError, match="cannot be opened"):
            log.truncate_to(5)
        assert (len(log.segments), log.log_end_offset, manager.offline_dirs()) == (segments, 40, {})
        fs.before.clear()
        assert log.truncate_to(5) == 5


@pytest.mark.parametrize("begun", ["load_producers", "drop_snapshots"])
def test_interrupted_truncation_takes_its_directory_offline(tmp_path, monkeypatch, begun):
    # The log has its new end already, so that a second truncation would have nothing to do.
    def no_descriptors(*arguments, **settings):
        raise OSError(errno.EMFILE, "Too many open files")

    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        append(log, 1, times=10)
        monkeypatch.setattr(f"zkbroker.log.trimming.{begun}", no_descriptors)
        with pytest.raises(StorageError, match="Too many open files"):
            log.truncate_to(4)
        assert list(manager.offline_dirs()) == [str(tmp_path)]


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".snapshot.tmp"])
def test_failed_roll_leaves_no_file_that_hides_messages(tmp_path, kind):
    fs = ScarceFileSystem(written_ending=kind)
    with started_log(tmp_path, fs=fs, segment_bytes=2000) as log:
        append(log, 8)
        fs.left = 0
        with pytest.raises(StorageError, match="Too many open files"):
            append(log, 10)
        # A smaller set still fits, so the next segment does not begin where the failed one would.
        append(log, 4)
        fs.left = None
        append(log, 10)
        assert [each.base_offset for each in log.segments] == [0, 12]
    with reopened_log(tmp_path) as log:
        assert [each.base_offset for each in log.segments] == [0, 12]
        assert [record.offset for record in read_all(log)] == list(range(22))


def test_creation_without_descriptors_leaves_no_open_file_and_no_partition(tmp_path):
    left = sys.maxsize

    def take(*arguments):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.EMFILE, "Too many open files")

    directories = [tmp_path / name for name in "ab"]
    fs = HookedFileSystem(open=take, fsync_dir=take)
    with started(*directories, fs=fs) as manager:
        before = sorted(open_paths())
        for left in range(5):  # noqa: B007 - the hook counts it down
            with pytest.raises(StorageError, match="Too many open files"):
                manager.get_or_create(TP)
            assert sorted(open_paths()) == before
            assert [each for root in directories for each in root.glob(str(TP))] == []
        left = 5
        manager.get_or_create(TP)
        left = sys.maxsize
        manager.upkeep.run_deletions()
        assert len(list(tmp_path.glob(f"*/{TP}*"))) == 1


def test_start_with_few_descriptors_loses_no_message(tmp_path):
    store_partitions(tmp_path)
    refusals, opened = [], set()
    for left in range(0, 200, 3):
        manager = make_manager(tmp_path, fs=ScarceFileSystem(left))
        try:
            manager.start()
        except StorageError as error:
            refusals.append(str(error))
            continue
        opened.add(len(manager.logs()))
        manager.abandon()
    assert refusals
    assert {1, 3, len(PARTITIONS)} < opened
    with started(tmp_path) as manager:
        assert [manager.get(tp).log_end_offset for tp in PARTITIONS] == [1] * len(PARTITIONS)
    assert all("Too many open files" in refusal for refusal in refusals)


def test_unexpected_error_of_a_recovery_ends_the_start(tmp_path, monkeypatch):
    def broken(plan):
        raise ValueError("a defect")

    store_partitions(tmp_path)
    manager = make_manager(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(ValueError, match="a defect"):
        patch.setattr("zkbroker.log.loader.load", broken)
        manager.start()
    with started(tmp_path) as manager:
        assert sorted(manager.logs()) == PARTITIONS


def test_unreadable_replacement_plan_is_refused(tmp_path):
    with started(tmp_path) as manager:
        append(manager.get_or_create(TP), 1)
    (tmp_path / str(TP) / "replace-plan").write_text("junk")
    with pytest.raises(StorageError, match="replace-plan"):
        make_manager(tmp_path).start()


@pytest.mark.parametrize("crashed_between", [False, True])
def test_recreated_partition_inherits_no_checkpoints(tmp_path, crashed_between):
    manager, log = start_log(tmp_path, segment_bytes=1000)
    append(log, 4, times=10)
    log.flush()
    log.advance_start_to(26)
    manager.upkeep.checkpoint()
    manager.delete(TP)
    if crashed_between:
        crash(manager)
        manager = make_manager(tmp_path, segment_bytes=1000)
        manager.start()
    log = manager.get_or_create(TP)
    append(log, 4, times=8)
    damaged = log.segments[1].path(".log")
    crash(manager)
    flip_bit(damaged, 40)
    again = make_manager(tmp_path, segment_bytes=1000)
    # The old start offset would hide messages, the old recovery point would serve the damage.
    assert again.start()[0].file == damaged
    records = read_all(again.get(TP))
    assert [record.offset for record in records] == list(range(int(damaged.stem)))
    again.close()


def test_new_data_directory_is_synced_before_use(tmp_path):
    synced = []
    fs = HookedFileSystem(fsync_dir=synced.append)
    with started(tmp_path / "new" / "data", fs=fs):
        assert {tmp_path, tmp_path / "new"} <= set(synced)
    synced.clear()
    with started(tmp_path / "new" / "data", fs=fs):
        assert tmp_path not in synced


def test_partition_created_during_checkpoint_is_safe(tmp_path, monkeypatch):
    with started(tmp_path) as manager:
        manager.get_or_create(PARTITIONS[0])
        left = iter(PARTITIONS[1:])

        read = Durability.recovery_start.fget

        def recovery_start(durability):
            # Another task may create one while this one waits for the log's lock.
            for tp in left:
                manager.get_or_create(tp)
                break
            return read(durability)

        monkeypatch.setattr(Durability, "recovery_start", property(recovery_start))
        manager.upkeep.checkpoint()
    assert "t 0 0" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_partition_without_descriptor_at_start_stays_closed(tmp_path):
    store_partitions(tmp_path)
    fs = HookedFileSystem(**failing_below(tmp_path / str(PARTITIONS[2]), errno.EMFILE))
    with started(tmp_path, fs=fs) as manager:
        assert sorted(manager.logs()) == [each for each in PARTITIONS if each != PARTITIONS[2]]
        with pytest.raises(StorageError):
            manager.get_or_create(PARTITIONS[2])
        manager.upkeep.checkpoint()
        fs.before.clear()
        assert manager.get_or_create(PARTITIONS[2]).log_end_offset == 1


def test_start_opens_no_more_logs_than_allowed(tmp_path):
    store_partitions(tmp_path)
    with started(tmp_path, open_limit=4) as manager:
        assert len(manager.logs()) == 4
        assert manager.get_or_create(PARTITIONS[5]).log_end_offset == 1


def test_log_left_closed_at_start_can_be_deleted(tmp_path):
    store_partitions(tmp_path)
    with started(tmp_path, open_limit=4) as manager:
        manager.delete(PARTITIONS[5])
        assert not (tmp_path / str(PARTITIONS[5])).exists()
        assert (tmp_path / str(PARTITIONS[4])).exists()


@pytest.mark.parametrize("topic", ["x" * 300, "a/b", "..", "", "a\0b"])
def test_invalid_topic_name_does_not_take_disk_offline(tmp_path, topic):
    with started(tmp_path) as manager:
        with pytest.raises(ValueError, match="not topic-partition"):
            manager.get_or_create(TopicPartition(topic, 0))
        manager.get_or_create(TopicPartition("good", 0))


def test_new_directories_are_reported_until_marked(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    with started(old) as manager:
        assert manager.new_directories == [str(old)]
        manager.write_meta(1, "c")
        assert manager.new_directories == []
    with started(old, new) as manager:
        assert manager.new_directories == [str(new)]
        manager.write_meta(1, "c", new_directories=False)
        assert not (new / "meta.properties").exists()
        manager.write_meta(1, "c")
        assert (new / "meta.properties").exists()


def test_new_defaults_apply_to_topics_without_overrides(tmp_path):
    manager = make_manager(tmp_path, overrides={"own": {"retention.ms": "7"}})
    manager.start()
    own, other = (manager.get_or_create(TopicPartition(name, 0)) for name in ("own", "other"))
    manager.update_defaults(LogConfig(retention_ms=5, max_message_bytes=9))
    assert (own.config.retention_ms, own.config.max_message_bytes) == (7, 9)
    assert (other.config.retention_ms, other.config.max_message_bytes) == (5, 9)
    assert manager.get_or_create(TopicPartition("later", 0)).config.retention_ms == 5
    manager.close()


def test_failed_upkeep_step_is_repeated(tmp_path, monkeypatch):
    done, left = threading.Event(), [RuntimeError("once")]

    def step(upkeep):
        if left:
            raise left.pop()
        done.set()

    monkeypatch.setattr(LogUpkeep, "checkpoint", step)
    with started(tmp_path, manager={"recovery_checkpoint_ms": 1}, clock=RunningClock()):
        assert done.wait(60)


class RunningClock(Clock):
    """A clock that advances by a second with each call."""

    def __call__(self) -> int:
        self.advance(1000)
        return self.now
