import errno
import threading
import time

import gevent
import pytest

from tests.support.logs import (
    TP,
    Clock,
    EagerRuntime,
    InlineTask,
    make_manager,
    message_set,
    started,
)
from zkbroker.errors import RequestTimedOut, StorageError
from zkbroker.log import FileSystem
from zkbroker.runtime import get_runtime
from zkbroker.runtime.threads import ThreadsRuntime


class CountingFileSystem(FileSystem):
    """Counts fsyncs of log files, and holds them up while told to."""

    def __init__(self):
        self.count = 0
        self.free = threading.Event()
        self.free.set()
        self.entered = threading.Event()
        self.fail = False

    def fsync(self, fd):
        self.count += 1
        self.entered.set()
        assert self.free.wait(30)
        if self.fail:
            raise OSError(5, "Input/output error")
        super().fsync(fd)


def test_without_a_policy_no_append_waits_and_nothing_is_flushed(tmp_path):
    fs = CountingFileSystem()
    with started(tmp_path, fs=fs) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        before = fs.count
        log.wait_durable(log.append_as_leader(message_set(5), leader_epoch=0).last_offset)
        assert fs.count == before
        assert log.recovery_point == 0


@pytest.mark.parametrize("runtime", ["threads", "gevent"])
def test_one_fsync_serves_every_waiting_append(tmp_path, runtime):
    fs = CountingFileSystem()
    runtime = get_runtime(runtime)
    with started(tmp_path, fs=fs, flush_messages=1, runtime=runtime) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        before = fs.count
        done = []
        fs.free.clear()
        fs.entered.clear()

        def produce():
            result = log.append_as_leader(message_set(1), leader_epoch=0)
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


def test_the_event_loop_runs_on_while_the_disk_is_busy(tmp_path):
    fs = CountingFileSystem()
    with started(tmp_path, fs=fs, flush_messages=1, runtime="gevent") as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        fs.free.clear()
        result = log.append_as_leader(message_set(1), leader_epoch=0)
        waiter = gevent.spawn(log.wait_durable, result.last_offset)
        for _ in range(20):
            gevent.sleep(0.001)
            assert log.read_bytes(0, 1000, end=log.log_end_offset)
        assert not waiter.ready()
        with pytest.raises(RequestTimedOut):
            log.wait_durable(result.last_offset, timeout_s=0.01)
        fs.free.set()
        waiter.get(timeout=20)


def test_fewer_than_m_messages_are_ever_acknowledged_and_not_on_disk(tmp_path):
    with started(tmp_path, flush_messages=10, runtime=EagerRuntime()) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        for _ in range(40):
            result = log.append_as_leader(message_set(3), leader_epoch=0)
            log.wait_durable(result.last_offset, timeout_s=10)
            assert log.log_end_offset - log.recovery_point < 10


def test_a_topic_s_own_policy_counts(tmp_path):
    with started(tmp_path, overrides={"my-topic": {"flush.messages": "1"}}) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        log.wait_durable(
            log.append_as_leader(message_set(3), leader_epoch=0).last_offset, timeout_s=10
        )
        assert log.recovery_point == 3


def test_what_is_older_than_flush_ms_is_flushed(tmp_path):
    clock = Clock()
    with started(tmp_path, clock=clock, flush_ms=1000, runtime=EagerRuntime()) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        log.append_as_leader(message_set(3), leader_epoch=0)
        clock.advance(999)
        assert manager.upkeep.flush_due() == clock.now + 1
        assert log.recovery_point == 0
        clock.advance(1)
        log.append_as_leader(message_set(1), leader_epoch=0)
        assert manager.upkeep.flush_due() is None
        assert log.recovery_point == 4


def test_the_background_task_flushes_in_time(tmp_path):
    with started(tmp_path, clock=lambda: time.time_ns() // 10**6, flush_ms=5) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        log.append_as_leader(message_set(3), leader_epoch=0)
        deadline = time.monotonic() + 20
        while log.recovery_point < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
        assert log.recovery_point == 3


def test_a_roll_brings_the_old_segment_to_the_disk(tmp_path):
    with started(tmp_path, runtime=EagerRuntime(), segment_bytes=1000) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        for _ in range(10):
            log.append_as_leader(message_set(3), leader_epoch=0)
        assert log.recovery_point >= log.segments[-1].base_offset > 0


def test_a_failed_fsync_acknowledges_no_append_then_or_later(tmp_path):
    fs = CountingFileSystem()
    manager = make_manager(tmp_path, fs=fs, flush_messages=1)
    manager.start()
    log = manager.get_or_create(TP)
    log.writer.begin_epoch(0)
    log.wait_durable(log.append_as_leader(message_set(1), leader_epoch=0).last_offset)
    fs.fail = True
    result = log.append_as_leader(message_set(1), leader_epoch=0)
    with pytest.raises(StorageError, match="Input/output error"):
        log.wait_durable(result.last_offset, timeout_s=20)
    fs.fail = False
    # A later fsync that succeeds says nothing of the pages that were lost.
    with pytest.raises(StorageError):
        log.wait_durable(result.last_offset, timeout_s=20)
    with pytest.raises(StorageError):
        log.append_as_leader(message_set(1), leader_epoch=0)
    with pytest.raises(StorageError):
        log.read(0, 100, end=log.log_end_offset)
    manager.close()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_failed_flush_fails_the_waiting_appends_and_is_repeated(tmp_path):
    class Crowded(FileSystem):
        """Has no descriptor left when told so."""

        on = False

        def open(self, path, flags):
            if self.on:
                raise OSError(errno.EMFILE, "Too many open files", str(path))
            return super().open(path, flags)

    fs = Crowded()
    settings = {"flush_messages": 4, "segment_bytes": 700, "manager": {"open_segments": 1}}
    with started(tmp_path, fs=fs, runtime=EagerRuntime(), **settings) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        log.append_as_leader(message_set(3), leader_epoch=0)
        log.roll()
        fs.on = True
        result = log.append_as_leader(message_set(2), leader_epoch=0)
        with pytest.raises(StorageError, match="Too many open files"):
            log.append_as_leader(message_set(5), leader_epoch=0)
        fs.on = False
        log.append_as_leader(message_set(3), leader_epoch=0)
        log.wait_durable(result.last_offset, timeout_s=20)
        assert manager.offline_dirs() == {}


def test_a_flush_for_which_no_file_could_be_opened_stays_due_and_holds_none(tmp_path):
    class Crowded(FileSystem):
        """Opens so many files and no more, once told."""

        left = None

        def __init__(self):
            self.held = set()

        def open(self, path, flags):
            if self.left is not None:
                if self.left == 0:
                    raise OSError(errno.EMFILE, "Too many open files", str(path))
                self.left -= 1
            fd = super().open(path, flags)
            self.held.add(fd)
            return fd

        def close(self, fd):
            self.held.discard(fd)
            super().close(fd)

    class Lazy(ThreadsRuntime):
        """Flushes only when it is called."""

        def spawn(self, function, *args, name):
            return InlineTask()

    fs = Crowded()
    settings = {"segment_bytes": 700, "manager": {"open_segments": 1}}
    with started(tmp_path, fs=fs, runtime=Lazy(), **settings) as manager:
        log = manager.get_or_create(TP)
        log.writer.begin_epoch(0)
        for _ in range(4):
            log.append_as_leader(message_set(3), leader_epoch=0)
        before = len(fs.held)
        fs.left = 4  # the log and the index of two of the three segments that have to be opened
        with pytest.raises(StorageError, match="Too many open files"):
            log.flush()
        fs.left = None
        assert log.durability.unflushed_since_ms is not None
        assert len(fs.held) <= before
        assert log.flush() == 12
        assert log.durability.unflushed_since_ms is None


def test_a_flush_beside_a_slower_one_makes_the_names_stable_that_it_counts_on(tmp_path):
    class Slow(FileSystem):
        """Holds up the first flush that is told to, and says which directories are stable."""

        def __init__(self):
            self.hold = threading.Event()
            self.entered = threading.Event()
            self.free = threading.Event()
            self.directories = 0

        def fsync(self, fd):
            if self.hold.is_set():
                self.hold.clear()
                self.entered.set()
                assert self.free.wait(30)
            super().fsync(fd)

        def fsync_dir(self, path):
            self.directories += 1
            super().fsync_dir(path)

    fs = Slow()
    with started(tmp_path, fs=fs, runtime="gevent") as manager:
        log = manager.get_or_create(TP)
        log.flush()
        log.writer.begin_epoch(5)  # the new name of the epochs' file is not stable yet
        fs.directories = 0
        fs.hold.set()
        slow = gevent.spawn(log.flush)
        while not fs.entered.is_set():
            gevent.sleep(0.001)
        log.append_as_leader(message_set(1), leader_epoch=5)
        assert log.flush() == 1
        assert fs.directories == 1
        fs.free.set()
        slow.get(timeout=20)


def test_no_append_waits_for_a_flush_that_ended_unexpectedly(tmp_path):
    class Surprise(Exception):
        """Not an error of the disk."""

    class Surprising(FileSystem):
        on = False

        def fsync(self, fd):
            if self.on:
                raise Surprise
            super().fsync(fd)

    fs = Surprising()
    manager = make_manager(tmp_path, fs=fs, flush_messages=1)
    manager.start()
    log = manager.get_or_create(TP)
    log.writer.begin_epoch(0)
    fs.on = True
    result = log.append_as_leader(message_set(1), leader_epoch=0)
    for _ in range(2):
        with pytest.raises(StorageError, match="Surprise"):
            log.wait_durable(result.last_offset, timeout_s=20)
    fs.on = False
    manager.abandon()
