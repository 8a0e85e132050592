import errno
import os
import subprocess
import sys
import threading

import pytest

from tests.support.logs import (
    TP,
    Clock,
    EagerRuntime,
    UnsyncedFileSystem,
    crash,
    make_manager,
    message_set,
    read_all,
    started,
)
from zkbroker.config.log import LogConfig
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log import FileSystem, TopicPartition
from zkbroker.log.checkpoints import read_meta
from zkbroker.log.durability import Durability
from zkbroker.log.upkeep import LogUpkeep
from zkbroker.records import iter_entries

PARTITIONS = [TopicPartition("t", at) for at in range(6)]


class FailingFileSystem(FileSystem):
    """Fails every change below one directory with one error, once told to."""

    def __init__(self, broken, code):
        self.broken = str(broken)
        self.code = code
        self.on = False
        self._paths = {}

    def _check(self, path):
        if self.on and str(path).startswith(self.broken):
            raise OSError(self.code, "broken", str(path))

    def open(self, path, flags):
        if flags & 3:
            self._check(path)
        fd = super().open(path, flags)
        self._paths[fd] = path
        return fd

    def write(self, fd, data):
        if self.on and str(self._paths[fd]).startswith(self.broken) and len(data) > 10:
            # A full disk takes what it can.
            super().write(fd, bytes(data[:10]))
        self._check(self._paths[fd])
        return super().write(fd, data)

    def fsync(self, fd):
        self._check(self._paths[fd])
        super().fsync(fd)

    def rename(self, source, target):
        self._check(source)
        super().rename(source, target)


def test_partitions_are_spread_over_the_directories_and_found_again(tmp_path):
    directories = [tmp_path / name for name in "abc"]
    with started(*directories) as manager:
        for tp in PARTITIONS:
            manager.get_or_create(tp).append_as_leader(message_set(1), leader_epoch=0)
    assert [len(list(each.glob("t-*"))) for each in directories] == [2, 2, 2]
    with started(*directories) as manager:
        assert set(manager.logs()) == set(PARTITIONS)
        assert all(log.log_end_offset == 1 for log in manager.logs().values())


def test_a_directory_in_use_is_refused_within_the_process_and_from_another(tmp_path):
    with started(tmp_path):
        with pytest.raises(StorageError, match="already in use"):
            make_manager(tmp_path).start()
        program = (
            "import sys\n"
            "from pathlib import Path\n"
            "from zkbroker.errors import StorageError\n"
            "from zkbroker.log.lock import DirectoryLock\n"
            "try:\n"
            "    DirectoryLock(Path(sys.argv[1]))\n"
            "except StorageError as error:\n"
            "    print(error)\n"
        )
        told = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "in use by another broker" in told.stdout
    with started(tmp_path):
        pass


def test_a_refused_start_leaves_no_lock(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "meta.properties").write_text("version=0\nbroker.id=7\n")
    with pytest.raises(ConfigError, match=r"broker\.id=3 does not match broker\.id=7"):
        make_manager(tmp_path / "a", tmp_path / "b").start(broker_id=3)
    with started(tmp_path / "a", tmp_path / "b") as manager:
        assert manager.stored_broker_id == 7


def test_directories_of_two_brokers_or_clusters_are_refused(tmp_path):
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


def test_a_partition_in_two_directories_is_refused(tmp_path):
    for name in "ab":
        with started(tmp_path / name) as manager:
            manager.get_or_create(TP)
    with pytest.raises(StorageError, match="remove one"):
        make_manager(tmp_path / "a", tmp_path / "b").start()


def test_a_clean_stop_is_marked_and_the_mark_goes_with_the_next_start(tmp_path):
    mark = tmp_path / ".kafka_cleanshutdown"
    with started(tmp_path):
        assert not mark.exists()
    assert mark.exists()
    manager = make_manager(tmp_path)
    manager.start()
    assert not mark.exists()
    crash(manager)
    assert not mark.exists()


def test_after_a_clean_stop_no_message_is_verified(tmp_path):
    with started(tmp_path, segment_bytes=1000) as manager:
        log = manager.get_or_create(TP)
        for _ in range(20):
            log.append_as_leader(message_set(3), leader_epoch=0)
        path = log.segments[1].path(".log")
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    manager = make_manager(tmp_path)
    assert manager.start() == []
    manager.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    manager = make_manager(tmp_path)
    assert manager.start()[0].file == path
    manager.close()


def test_recovery_begins_at_the_recovery_point(tmp_path):
    manager = make_manager(tmp_path, segment_bytes=1000)
    manager.start()
    log = manager.get_or_create(TP)
    for _ in range(20):
        log.append_as_leader(message_set(3), leader_epoch=0)
    log.flush()
    manager.upkeep.checkpoint()
    for _ in range(5):
        log.append_as_leader(message_set(3), leader_epoch=0)
    path = log.segments[0].path(".log")
    crash(manager)
    data = bytearray(path.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    again = make_manager(tmp_path)
    # The damage lies below the recovery point: nobody looked there, and nothing was cut.
    assert again.start() == []
    assert again.get(TP).log_end_offset == 75
    again.close()


def test_a_compacted_log_loses_the_end_of_a_segment_with_all_that_follows(tmp_path):
    settings = {"segment_bytes": 1000, "cleanup_policy": "compact", "runtime": EagerRuntime()}
    manager = make_manager(tmp_path, **settings)
    manager.start()
    log = manager.get_or_create(TP)
    log.append_as_leader(message_set(3), leader_epoch=0)
    log.flush()
    manager.upkeep.checkpoint()
    for _ in range(9):
        log.append_as_leader(message_set(3), leader_epoch=0)
    path, following = log.segments[1].path(".log"), log.segments[2].base_offset
    crash(manager)
    # What a power cut may leave of files that were not flushed: one is shorter, the next is whole.
    last = list(iter_entries(path.read_bytes()))[-1]
    os.truncate(path, last.position)
    again = make_manager(tmp_path, **settings)
    first, *_ = again.start()
    assert (first.file, first.offset) == (path, last.base_offset)
    assert first.reason == f"offsets {last.base_offset} to {following - 1} are missing"
    assert [record.offset for record in read_all(again.get(TP))] == list(range(last.base_offset))
    again.close()


def test_a_deleted_partition_is_gone_at_once_and_its_files_after_the_delay(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, file_delete_delay_ms=1000) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(3), leader_epoch=0)
        held = log.read(0, 1000, end=log.log_end_offset)
        manager.delete(TP)
        assert manager.get(TP) is None
        with pytest.raises(StorageError, match="deleted"):
            log.append_as_leader(message_set(1), leader_epoch=0)
        (doomed,) = tmp_path.glob("*-delete")
        assert doomed.name.startswith("my-topic-0.")
        assert manager.get_or_create(TP).log_end_offset == 0
        clock.advance(1001)
        manager.upkeep.run_deletions()
        assert list(tmp_path.glob("*-delete")) == []
        held.slice.close()
        manager.delete(TopicPartition("unknown", 0))


def test_a_deleted_partition_does_not_come_back_with_a_restart(tmp_path):
    manager = make_manager(tmp_path)
    manager.start()
    manager.get_or_create(TP).append_as_leader(message_set(3), leader_epoch=0)
    manager.delete(TP)
    crash(manager)
    with started(tmp_path) as manager:
        assert manager.logs() == {}
    assert list(tmp_path.glob("*-delete")) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_a_failing_disk_takes_its_partitions_offline_and_the_rest_serves_on(tmp_path, code):
    fs = FailingFileSystem(tmp_path / "a", code)
    manager = make_manager(tmp_path / "a", tmp_path / "b", fs=fs)
    manager.start()
    told = []
    manager.on_offline(lambda *args: told.append(args))
    logs = {tp: manager.get_or_create(tp) for tp in PARTITIONS}
    for log in logs.values():
        log.append_as_leader(message_set(2), leader_epoch=0)
    broken = [tp for tp, log in logs.items() if log.path.parent == tmp_path / "a"]
    assert len(broken) == 3
    fs.on = True
    for tp in broken:
        with pytest.raises(StorageError, match="cannot be used"):
            logs[tp].append_as_leader(message_set(2), leader_epoch=0)
        assert logs[tp].offline
        with pytest.raises(StorageError):
            logs[tp].durability.wait(2, 0)
    assert [(path, set(tps)) for path, tps, _ in told] == [(str(tmp_path / "a"), set(broken))]
    assert list(manager.offline_dirs()) == [str(tmp_path / "a")]
    for tp in set(PARTITIONS) - set(broken):
        assert logs[tp].append_as_leader(message_set(2), leader_epoch=0).base_offset == 2
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


def test_a_directory_that_cannot_be_used_is_offline_from_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "c" / ".lock").mkdir(parents=True)
    unusable = [tmp_path / "file" / "below", tmp_path / "c"]
    with started(*unusable, tmp_path / "b") as manager:
        assert list(manager.offline_dirs()) == [str(each) for each in unusable]
        # Its log may be where nobody can look; an empty one elsewhere would pass for it.
        with pytest.raises(StorageError, match="could not be read"):
            manager.get_or_create(TP)
        manager.get_or_create(TP, is_new=True).append_as_leader(message_set(1), leader_epoch=0)
        manager.get_or_create(TP).append_as_leader(message_set(1), leader_epoch=0)
    with pytest.raises(StorageError, match="no data directory"):
        make_manager(*unusable).start()


def test_a_file_that_was_taken_away_fails_its_reads_and_nothing_else(tmp_path):
    with started(tmp_path, segment_bytes=1000) as manager:
        log = manager.get_or_create(TP)
        for _ in range(10):
            log.append_as_leader(message_set(3), leader_epoch=0)
    with started(tmp_path, segment_bytes=1000) as manager:
        log = manager.get(TP)
        log.segments[0].path(".log").unlink()
        with pytest.raises(StorageError):
            log.read(0, 100, end=log.log_end_offset)
        assert manager.offline_dirs() == {}
        assert log.append_as_leader(message_set(3), leader_epoch=0).base_offset == 30


def test_a_log_that_is_being_closed_takes_nothing_more(tmp_path):
    class Interfering(UnsyncedFileSystem):
        """Appends once more when the last flush is under way."""

        refused = 0

        def fsync(self, fd):
            if log.offline and not self.refused:
                with pytest.raises(StorageError, match="closed"):
                    log.append_as_leader(message_set(1), leader_epoch=0)
                self.refused += 1

    fs = Interfering()
    with started(tmp_path, fs=fs) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(3), leader_epoch=0)
    assert fs.refused == 1
    with started(tmp_path) as manager:
        assert manager.get(TP).log_end_offset == 3


def test_a_topic_s_settings_reach_its_logs_now_and_later(tmp_path):
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


def test_names_that_are_no_partitions_are_left_alone(tmp_path):
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    with started(tmp_path) as manager:
        assert manager.logs() == {}
    assert (tmp_path / "lost+found").is_dir()
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_damaged_checkpoint_only_costs_time(tmp_path):
    with started(tmp_path) as manager:
        manager.get_or_create(TP).append_as_leader(message_set(5), leader_epoch=0)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n3\nmy-topic 0 x\n")
    with started(tmp_path) as manager:
        assert manager.get(TP).log_end_offset == 5


class OutOfDescriptors(UnsyncedFileSystem):
    """Opens nothing while told so."""

    def __init__(self):
        self.on = False

    def open(self, path, flags):
        if self.on:
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        return super().open(path, flags)


def test_a_lack_of_file_descriptors_fails_the_call_and_not_the_directory(tmp_path):
    fs = OutOfDescriptors()
    with started(tmp_path, fs=fs, segment_bytes=1000, manager={"open_segments": 1}) as manager:
        log = manager.get_or_create(TP)
        for _ in range(10):
            log.append_as_leader(message_set(3), leader_epoch=0)
        fs.on = True
        with pytest.raises(StorageError, match="Too many open files"):
            for _ in range(5):
                log.append_as_leader(message_set(3), leader_epoch=0)
        with pytest.raises(StorageError, match="Too many open files"):
            log.read(0, 100, end=log.log_end_offset)
        fs.on = False
        end = log.log_end_offset
        assert manager.offline_dirs() == {}
        for _ in range(5):
            log.append_as_leader(message_set(3), leader_epoch=0)
        assert [record.offset for record in read_all(log)] == list(range(end + 15))


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".snapshot.tmp"])
def test_a_segment_that_could_not_be_begun_leaves_no_file_that_hides_messages(tmp_path, kind):
    class Scarce(UnsyncedFileSystem):
        on = False

        def open(self, path, flags):
            if self.on and str(path).endswith(kind) and flags & 3:
                raise OSError(errno.EMFILE, "Too many open files", str(path))
            return super().open(path, flags)

    fs = Scarce()
    with started(tmp_path, fs=fs, segment_bytes=2000) as manager:
        log = manager.get_or_create(TP)
        log.append_as_leader(message_set(8), leader_epoch=0)
        fs.on = True
        with pytest.raises(StorageError, match="Too many open files"):
            log.append_as_leader(message_set(10), leader_epoch=0)
        # A smaller set still fits, so the next segment begins elsewhere than the one that failed.
        log.append_as_leader(message_set(4), leader_epoch=0)
        fs.on = False
        log.append_as_leader(message_set(10), leader_epoch=0)
        assert [each.base_offset for each in log.segments] == [0, 12]
    with started(tmp_path) as manager:
        log = manager.get(TP)
        assert [each.base_offset for each in log.segments] == [0, 12]
        assert [record.offset for record in read_all(log)] == list(range(22))


def test_a_start_without_enough_file_descriptors_opens_what_it_can_and_loses_nothing(tmp_path):
    with started(tmp_path) as manager:
        for tp in PARTITIONS:
            manager.get_or_create(tp).append_as_leader(message_set(1), leader_epoch=0)

    class Scarce(UnsyncedFileSystem):
        """Opens so many files and no more."""

        def __init__(self, left):
            self.left = left

        def open(self, path, flags):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EMFILE, "Too many open files", str(path))
            return super().open(path, flags)

    refusals, opened = [], set()
    for left in range(0, 200, 3):
        manager = make_manager(tmp_path, fs=Scarce(left))
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


def test_a_replacement_that_cannot_be_understood_is_not_guessed_at(tmp_path):
    with started(tmp_path) as manager:
        manager.get_or_create(TP).append_as_leader(message_set(1), leader_epoch=0)
    (tmp_path / str(TP) / "replace-plan").write_text("junk")
    with pytest.raises(StorageError, match="replace-plan"):
        make_manager(tmp_path).start()


@pytest.mark.parametrize("crashed_between", [False, True])
def test_a_partition_made_again_under_an_old_name_inherits_nothing(tmp_path, crashed_between):
    manager = make_manager(tmp_path, segment_bytes=1000)
    manager.start()
    log = manager.get_or_create(TP)
    for _ in range(10):
        log.append_as_leader(message_set(4), leader_epoch=0)
    log.flush()
    log.advance_start_to(26)
    manager.upkeep.checkpoint()
    manager.delete(TP)
    if crashed_between:
        crash(manager)
        manager = make_manager(tmp_path, segment_bytes=1000)
        manager.start()
    log = manager.get_or_create(TP)
    for _ in range(8):
        log.append_as_leader(message_set(4), leader_epoch=0)
    damaged = log.segments[1].path(".log")
    crash(manager)
    data = bytearray(damaged.read_bytes())
    data[40] ^= 1
    damaged.write_bytes(data)
    again = make_manager(tmp_path, segment_bytes=1000)
    # With the old start offset messages would be gone, with the old recovery point damage served.
    assert again.start()[0].file == damaged
    records = read_all(again.get(TP))
    assert [record.offset for record in records] == list(range(int(damaged.stem)))
    again.close()


def test_a_new_data_directory_s_name_is_stable_before_anything_is_stored_in_it(tmp_path):
    class Noting(UnsyncedFileSystem):
        def __init__(self):
            self.synced = []

        def fsync_dir(self, path):
            self.synced.append(path)

    fs = Noting()
    with started(tmp_path / "new" / "data", fs=fs):
        assert {tmp_path, tmp_path / "new"} <= set(fs.synced)
    fs = Noting()
    with started(tmp_path / "new" / "data", fs=fs):
        assert tmp_path not in fs.synced


def test_a_partition_that_is_made_while_a_checkpoint_is_taken_does_no_harm(tmp_path, monkeypatch):
    with started(tmp_path) as manager:
        manager.get_or_create(PARTITIONS[0])
        left = iter(PARTITIONS[1:])

        read = Durability.recovery_start.fget

        def recovery_start(durability):
            # As another task may while this one waits for the log's lock.
            for tp in left:
                manager.get_or_create(tp)
                break
            return read(durability)

        monkeypatch.setattr(Durability, "recovery_start", property(recovery_start))
        manager.upkeep.checkpoint()
    assert "t 0 0" in (tmp_path / "recovery-point-offset-checkpoint").read_text()


def test_a_partition_that_finds_no_free_descriptor_at_the_start_is_not_open_and_the_others_are(
    tmp_path,
):
    with started(tmp_path) as manager:
        for each in PARTITIONS:
            manager.get_or_create(each).append_as_leader(message_set(1), leader_epoch=0)
    fs = FailingFileSystem(tmp_path / str(PARTITIONS[2]), errno.EMFILE)
    fs.on = True
    with started(tmp_path, fs=fs) as manager:
        assert sorted(manager.logs()) == [each for each in PARTITIONS if each != PARTITIONS[2]]
        with pytest.raises(StorageError):
            manager.get_or_create(PARTITIONS[2])
        manager.upkeep.checkpoint()
        fs.on = False
        assert manager.get_or_create(PARTITIONS[2]).log_end_offset == 1


def test_no_more_logs_are_open_at_the_start_than_allowed(tmp_path):
    with started(tmp_path) as manager:
        for each in PARTITIONS:
            manager.get_or_create(each).append_as_leader(message_set(1), leader_epoch=0)
    with started(tmp_path, open_limit=4) as manager:
        assert len(manager.logs()) == 4
        assert manager.get_or_create(PARTITIONS[5]).log_end_offset == 1


def test_a_log_that_was_not_opened_is_deleted_all_the_same(tmp_path):
    with started(tmp_path) as manager:
        for each in PARTITIONS:
            manager.get_or_create(each)
    with started(tmp_path, open_limit=4) as manager:
        manager.delete(PARTITIONS[5])
        assert not (tmp_path / str(PARTITIONS[5])).exists()
        assert (tmp_path / str(PARTITIONS[4])).exists()


@pytest.mark.parametrize("topic", ["x" * 300, "a/b", "..", "", "a\0b"])
def test_a_name_that_no_directory_can_have_does_not_take_the_disk_offline(tmp_path, topic):
    with started(tmp_path) as manager:
        with pytest.raises(ValueError, match="not topic-partition"):
            manager.get_or_create(TopicPartition(topic, 0))
        manager.get_or_create(TopicPartition("good", 0))


def test_new_directories_are_reported_until_they_are_marked(tmp_path):
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


def test_defaults_change_for_topics_without_their_own(tmp_path):
    manager = make_manager(tmp_path, overrides={"own": {"retention.ms": "7"}})
    manager.start()
    own, other = (manager.get_or_create(TopicPartition(name, 0)) for name in ("own", "other"))
    manager.update_defaults(LogConfig(retention_ms=5, max_message_bytes=9))
    assert (own.config.retention_ms, own.config.max_message_bytes) == (7, 9)
    assert (other.config.retention_ms, other.config.max_message_bytes) == (5, 9)
    assert manager.get_or_create(TopicPartition("later", 0)).config.retention_ms == 5
    manager.close()


def test_a_step_of_the_upkeep_that_fails_is_repeated(tmp_path, monkeypatch):
    done, left = threading.Event(), [RuntimeError("once")]

    def step(upkeep):
        if left:
            raise left.pop()
        done.set()

    monkeypatch.setattr(LogUpkeep, "checkpoint", step)
    with started(tmp_path, manager={"recovery_checkpoint_ms": 1}, clock=RunningClock()):
        assert done.wait(60)


class RunningClock(Clock):
    """A clock that moves by a second with each look."""

    def __call__(self) -> int:
        self.advance(1000)
        return self.now
