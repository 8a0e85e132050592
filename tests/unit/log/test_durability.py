import errno
import threading
import time

import gevent
import pytest

from tests.support.logs import (
    TP,
    Clock,
    EagerRuntime,
    HookedFileSystem,
    InlineTask,
    ScarceFileSystem,
    append,
    start_log,
    started,
    started_log,
)
from tests.support.process import eventually
from zkbroker.errors import RequestTimedOut, StorageError
from zkbroker.log import FileSystem
from zkbroker.runtime import get_runtime
from zkbroker.runtime.threads import ThreadsRuntime


class CountingFileSystem(FileSystem):
    """Counts fsyncs; they wait for `free`, and raise `error`."""

    def __init__(self):
        self.count = 0
        self.free = threading.Event()
        self.free.set()
        self.entered = threading.Event()
        self.error = None

    def fsync(self, fd):
        self.count += 1
        self.entered.set()
        assert self.free.wait(30)
        if self.error is not None:
            raise self.error
        super().fsync(fd)


def test_append_does_not_flush_without_flush_policy(tmp_path):
    fs = CountingFileSystem()
    with started_log(tmp_path, fs=fs) as log:
        log.writer.begin_epoch(0)
        before = fs.count
        log.wait_durable(append(log, 5).last_offset)
        assert fs.count == before
        assert log.recovery_point == 0


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_one_fsync_serves_all_waiting_appends(tmp_path, runtime):
    fs = CountingFileSystem()
    runtime = get_runtime(runtime)
    with started_log(tmp_path, fs=fs, flush_messages=1, runtime=runtime) as log:
        log.writer.begin_epoch(0)
        before = fs.count
        done = []
        fs.free.clear()
        fs.entered.clear()

        def produce():
            result = append(log, 1)
            log.wait_durable(result.last_offset)
            done.append((result.last_offset, log.recovery_point))

        first = runtime.spawn(produce, name="first")
        while not fs.entered.is_set():
            runtime.sleep(0.001)
        # The first fsync runs; these fifty must share the second one.
        others = [runtime.spawn(produce, name=f"{at}") for at in range(50)]
        while log.log_end_offset < 51:
            runtime.sleep(0.001)
        assert done == []
        fs.free.set()
        for task in [first, *others]:
            assert task.join(20)
        assert len(done) == 51
        assert all(durable > last for last, durable in done)
        assert fs.count - before == 2


def test_event_loop_runs_during_fsync(tmp_path):
    fs = CountingFileSystem()
    with started_log(tmp_path, fs=fs, flush_messages=1, runtime="gevent") as log:
        log.writer.begin_epoch(0)
        fs.free.clear()
        result = append(log, 1)
        waiter = gevent.spawn(log.wait_durable, result.last_offset)
        for _ in range(20):
            gevent.sleep(0.001)
            assert log.read_bytes(0, 1000, end=log.log_end_offset)
        assert not waiter.ready()
        with pytest.raises(RequestTimedOut):
            log.wait_durable(result.last_offset, timeout_s=0.01)
        fs.free.set()
        waiter.get(timeout=20)


def test_acknowledged_unflushed_messages_stay_below_flush_messages(tmp_path):
    with started_log(tmp_path, flush_messages=10, runtime=EagerRuntime()) as log:
        log.writer.begin_epoch(0)
        for _ in range(40):
            result = append(log, 3)
            log.wait_durable(result.last_offset, timeout_s=10)
            assert log.log_end_offset - log.recovery_point < 10


def test_flush_policy_of_topic_applies(tmp_path):
    with started_log(tmp_path, overrides={"my-topic": {"flush.messages": "1"}}) as log:
        log.writer.begin_epoch(0)
        log.wait_durable(append(log, 3).last_offset, timeout_s=10)
        assert log.recovery_point == 3


def test_messages_older_than_flush_ms_are_flushed(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, flush_ms=1000, runtime=EagerRuntime()) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        append(log, 3)
        clock.advance(999)
        assert manager.upkeep.flush_due() == clock.now + 1
        assert log.recovery_point == 0
        clock.advance(1)
        append(log, 1)
        assert manager.upkeep.flush_due() is None
        assert log.recovery_point == 4


def test_background_task_flushes_due_log(tmp_path):
    with started_log(tmp_path, clock=lambda: time.time_ns() // 10**6, flush_ms=5) as log:
        log.writer.begin_epoch(0)
        append(log, 3)
        eventually(lambda: log.recovery_point == 3, "the log is flushed")


def test_roll_flushes_previous_segment(tmp_path):
    with started_log(tmp_path, runtime=EagerRuntime(), segment_bytes=1000) as log:
        log.writer.begin_epoch(0)
        append(log, 3, times=10)
        assert log.recovery_point >= log.segments[-1].base_offset > 0


def test_failed_fsync_refuses_current_and_later_appends(tmp_path):
    fs = CountingFileSystem()
    manager, log = start_log(tmp_path, fs=fs, flush_messages=1)
    log.writer.begin_epoch(0)
    log.wait_durable(append(log, 1).last_offset)
    fs.error = OSError(errno.EIO, "Input/output error")
    result = append(log, 1)
    with pytest.raises(StorageError, match="Input/output error"):
        log.wait_durable(result.last_offset, timeout_s=20)
    fs.error = None
    # A later successful fsync does not prove that the lost pages were written.
    with pytest.raises(StorageError):
        log.wait_durable(result.last_offset, timeout_s=20)
    with pytest.raises(StorageError):
        append(log, 1)
    with pytest.raises(StorageError):
        log.read(0, 100, end=log.log_end_offset)
    manager.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_flush_without_descriptors_fails_append_and_is_repeated(tmp_path):
    fs = ScarceFileSystem()
    settings = {"flush_messages": 4, "segment_bytes": 700, "manager": {"open_segments": 1}}
    with started(tmp_path, fs=fs, runtime=EagerRuntime(), **settings) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        append(log, 3)
        log.roll()
        fs.left = 0
        result = append(log, 2)
        with pytest.raises(StorageError, match="Too many open files"):
            append(log, 5)
        fs.left = None
        append(log, 3)
        log.wait_durable(result.last_offset, timeout_s=20)
        assert manager.offline_dirs() == {}


def test_flush_without_descriptors_stays_due_and_leaks_none(tmp_path):
    class IdleRuntime(ThreadsRuntime):
        """Runs no spawned task."""

        def spawn(self, function, *args, name):
            return InlineTask()

    fs = ScarceFileSystem()
    settings = {"segment_bytes": 700, "manager": {"open_segments": 1}}
    with started_log(tmp_path, fs=fs, runtime=IdleRuntime(), **settings) as log:
        log.writer.begin_epoch(0)
        append(log, 3, times=4)
        before = len(fs.open_fds)
        fs.left = 4  # the log and the index of two of the three segments that have to be opened
        with pytest.raises(StorageError, match="Too many open files"):
            log.flush()
        fs.left = None
        assert log.durability.unflushed_since_ms is not None
        assert len(fs.open_fds) <= before
        assert log.flush() == 12
        assert log.durability.unflushed_since_ms is None


def test_concurrent_flush_syncs_directory_itself(tmp_path):
    entered, free, directories = threading.Event(), threading.Event(), []

    def wait_until_free(fd):
        del fs.before["fsync"]
        entered.set()
        assert free.wait(30)

    fs = HookedFileSystem()
    with started_log(tmp_path, fs=fs, runtime="gevent") as log:
        log.flush()
        log.writer.begin_epoch(5)  # the new name of the epochs' file is not stable yet
        fs.before |= {"fsync": wait_until_free, "fsync_dir": directories.append}
        slow = gevent.spawn(log.flush)
        while not entered.is_set():
            gevent.sleep(0.001)
        append(log, 1, epoch=5)
        assert log.flush() == 1
        assert len(directories) == 1
        free.set()
        slow.get(timeout=20)


def test_unexpected_flush_error_fails_waiting_appends(tmp_path):
    fs = CountingFileSystem()
    manager, log = start_log(tmp_path, fs=fs, flush_messages=1)
    log.writer.begin_epoch(0)
    fs.error = LookupError("not an error of the disk")
    result = append(log, 1)
    for _ in range(2):
        with pytest.raises(StorageError, match="LookupError"):
            log.wait_durable(result.last_offset, timeout_s=20)
    fs.error = None
    manager.abandon()


def test_wait_ends_if_another_flush_has_just_reached_its_target(tmp_path):
    with started_log(tmp_path) as log:
        last = append(log, 3).last_offset
        lock = log.durability._lock

        class FlushedMeanwhile:
            """The lock, which another task's flush releases to the waiter."""

            def __enter__(self):
                log.durability._lock = lock
                log.flush()
                return lock.__enter__()

            def __exit__(self, *error):
                return lock.__exit__(*error)

        log.durability._lock = FlushedMeanwhile()
        log.durability.wait(last + 1, 3)
        assert log.durability.durable == last + 1
