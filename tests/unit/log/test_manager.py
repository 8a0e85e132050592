import errno
import subprocess
import sys

import pytest

from tests.support.logs import (
    TP,
    Clock,
    UnsyncedFileSystem,
    crash,
    make_manager,
    message_set,
    read_all,
    started,
)
from zkbroker.errors import ConfigError, StorageError
from zkbroker.log import FileSystem, Log, TopicPartition

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
            manager.get_or_create(tp).append(message_set(1))
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
        assert (manager.stored_broker_id, manager.stored_cluster_id) == (1, "one")


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
            log.append(message_set(3))
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
        log.append(message_set(3))
    log.flush()
    manager.checkpoint()
    for _ in range(5):
        log.append(message_set(3))
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


def test_a_deleted_partition_is_gone_at_once_and_its_files_after_the_delay(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, file_delete_delay_ms=1000) as manager:
        log = manager.get_or_create(TP)
        log.append(message_set(3))
        held = log.read(0, 1000)
        manager.delete(TP)
        assert manager.get(TP) is None
        with pytest.raises(StorageError, match="deleted"):
            log.append(message_set(1))
        (doomed,) = tmp_path.glob("*-delete")
        assert doomed.name.startswith("my-topic-0.")
        assert manager.get_or_create(TP).log_end_offset == 0
        clock.advance(1001)
        manager.run_deletions()
        assert list(tmp_path.glob("*-delete")) == []
        held.slice.close()
        manager.delete(TopicPartition("unknown", 0))


def test_a_deleted_partition_does_not_come_back_with_a_restart(tmp_path):
    manager = make_manager(tmp_path)
    manager.start()
    manager.get_or_create(TP).append(message_set(3))
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
    told, woken = [], []
    manager.on_offline(lambda *args: told.append(args))
    logs = {tp: manager.get_or_create(tp) for tp in PARTITIONS}
    for log in logs.values():
        log.append(message_set(2))
        log.add_append_listener(lambda: woken.append(1))
    broken = [tp for tp, log in logs.items() if log.directory.parent == tmp_path / "a"]
    assert len(broken) == 3
    fs.on = True
    for tp in broken:
        with pytest.raises(StorageError, match="cannot be used"):
            logs[tp].append(message_set(2))
        assert logs[tp].offline
    assert len(woken) == 3
    assert [(path, set(tps)) for path, tps, _ in told] == [(str(tmp_path / "a"), set(broken))]
    assert list(manager.offline_dirs()) == [str(tmp_path / "a")]
    for tp in set(PARTITIONS) - set(broken):
        assert logs[tp].append(message_set(2)).base_offset == 2
    assert manager.get_or_create(TopicPartition("new", 0)).directory.parent == tmp_path / "b"
    with pytest.raises(StorageError):
        manager.get_or_create(broken[0]).read(0, 100)
    with pytest.raises(StorageError):
        manager.delete(broken[0])
    manager.run_retention()
    manager.flush_due()
    manager.checkpoint()
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
        manager.get_or_create(TP, is_new=True).append(message_set(1))
        manager.get_or_create(TP).append(message_set(1))
    with pytest.raises(StorageError, match="no data directory"):
        make_manager(*unusable).start()


def test_a_file_that_was_taken_away_fails_its_reads_and_nothing_else(tmp_path):
    with started(tmp_path, segment_bytes=1000) as manager:
        log = manager.get_or_create(TP)
        for _ in range(10):
            log.append(message_set(3))
    with started(tmp_path, segment_bytes=1000) as manager:
        log = manager.get(TP)
        log.segments[0].path(".log").unlink()
        with pytest.raises(StorageError):
            log.read(0, 100)
        assert manager.offline_dirs() == {}
        assert log.append(message_set(3)).base_offset == 30


def test_a_log_that_is_being_closed_takes_nothing_more(tmp_path):
    class Interfering(UnsyncedFileSystem):
        """Appends once more when the last flush is under way."""

        refused = 0

        def fsync(self, fd):
            if log.offline and not self.refused:
                with pytest.raises(StorageError, match="closed"):
                    log.append(message_set(1))
                self.refused += 1

    fs = Interfering()
    with started(tmp_path, fs=fs) as manager:
        log = manager.get_or_create(TP)
        log.append(message_set(3))
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
        manager.get_or_create(TP).append(message_set(5))
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
            log.append(message_set(3))
        fs.on = True
        with pytest.raises(StorageError, match="Too many open files"):
            for _ in range(5):
                log.append(message_set(3))
        with pytest.raises(StorageError, match="Too many open files"):
            log.read(0, 100)
        fs.on = False
        end = log.log_end_offset
        assert manager.offline_dirs() == {}
        for _ in range(5):
            log.append(message_set(3))
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
        log.append(message_set(8))
        fs.on = True
        with pytest.raises(StorageError, match="Too many open files"):
            log.append(message_set(10))
        # A smaller set still fits, so the next segment begins elsewhere than the one that failed.
        log.append(message_set(4))
        fs.on = False
        log.append(message_set(10))
        assert [each.base_offset for each in log.segments] == [0, 12]
    with started(tmp_path) as manager:
        log = manager.get(TP)
        assert [each.base_offset for each in log.segments] == [0, 12]
        assert [record.offset for record in read_all(log)] == list(range(22))


def test_a_start_without_enough_file_descriptors_fails_as_a_whole(tmp_path):
    with started(tmp_path) as manager:
        for tp in PARTITIONS:
            manager.get_or_create(tp).append(message_set(1))

    class Scarce(UnsyncedFileSystem):
        """Opens so many files and no more."""

        def __init__(self, left):
            self.left = left

        def open(self, path, flags):
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EMFILE, "Too many open files", str(path))
            return super().open(path, flags)

    refusals = []
    for left in range(0, 200, 7):
        manager = make_manager(tmp_path, fs=Scarce(left))
        try:
            manager.start()
        except StorageError as error:
            refusals.append(str(error))
            continue
        assert set(manager.logs()) == set(PARTITIONS)
        manager.abandon()
        break
    assert refusals
    assert all("Too many open files" in refusal for refusal in refusals)


def test_a_replacement_that_cannot_be_understood_is_not_guessed_at(tmp_path):
    with started(tmp_path) as manager:
        manager.get_or_create(TP).append(message_set(1))
    (tmp_path / str(TP) / "replace-plan").write_text("junk")
    with pytest.raises(StorageError, match="replace-plan"):
        make_manager(tmp_path).start()


@pytest.mark.parametrize("crashed_between", [False, True])
def test_a_partition_made_again_under_an_old_name_inherits_nothing(tmp_path, crashed_between):
    manager = make_manager(tmp_path, segment_bytes=1000)
    manager.start()
    log = manager.get_or_create(TP)
    for _ in range(10):
        log.append(message_set(4))
    log.flush()
    log.delete_records_before(26)
    manager.checkpoint()
    manager.delete(TP)
    if crashed_between:
        crash(manager)
        manager = make_manager(tmp_path, segment_bytes=1000)
        manager.start()
    log = manager.get_or_create(TP)
    for _ in range(8):
        log.append(message_set(4))
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

        def recovery_point(log):
            # As another task may while this one waits for the log's lock.
            for tp in left:
                manager.get_or_create(tp)
                break
            return log._durability.recovery_point

        monkeypatch.setattr(Log, "recovery_point", property(recovery_point))
        manager.checkpoint()
    assert "t 0 0" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
