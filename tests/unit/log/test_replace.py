import errno

import pytest

from tests.support.logs import TP, EagerRuntime, make_manager, message_set, read_all, started
from tests.support.powercut import PowerCutFileSystem
from zkbroker.errors import StorageError
from zkbroker.log import FileSystem
from zkbroker.log.replacing import replace_segments, segment_writer
from zkbroker.log.segments.replacement import PLAN
from zkbroker.records import iter_entries

SETTINGS = {"segment_bytes": 1500, "cleanup_policy": "compact"}


class Crash(Exception):
    """The process ends here."""


class CrashingFileSystem(FileSystem):
    """Counts the calls that change something, and dies at the one it is told to."""

    def __init__(self):
        self.left = None

    def count(self):
        if self.left is not None:
            if self.left == 0:
                raise Crash
            self.left -= 1

    def write(self, fd, data):
        self.count()
        return super().write(fd, data)

    def fsync(self, fd):
        self.count()

    def fsync_dir(self, path):
        self.count()

    def rename(self, source, target):
        self.count()
        super().rename(source, target)

    def unlink(self, path):
        self.count()
        super().unlink(path)


def fill(log):
    for index in range(24):
        log.append_as_leader(
            message_set(1, magic=index % 3, size=300, prefix=f"{index}-"), leader_epoch=0
        )
    log.roll()


def replace(log, end, kept):
    """Have the segments below an offset hold given entries."""
    old = [segment for segment in log.segments if segment.base_offset < end]
    writers = []
    for data in kept:
        if not writers or writers[-1].size + len(data) > log.config.segment_bytes:
            offset = next(iter_entries(data)).base_offset
            writers.append(segment_writer(log, offset if writers else old[0].base_offset))
        writers[-1].append(data)
    for writer in writers:
        writer.finish()
    replace_segments(log, old, writers)


def every_third(log):
    end = log.segments[-1].base_offset
    kept = []
    for offset in range(0, end, 3):
        data = log.read_bytes(offset, 1, end=log.log_end_offset)
        entry = next(iter_entries(data))
        kept.append(data[entry.position : entry.position + entry.size])
    return end, kept


def test_replaced_segments_hold_what_was_kept_at_its_offsets(tmp_path):
    with started(tmp_path, **SETTINGS) as manager:
        log = manager.get_or_create(TP)
        fill(log)
        before = {record.offset: record for record in read_all(log)}
        held = log.read(1, 300, end=log.log_end_offset)
        replace(log, *every_third(log))
        held.slice.close()
        log.append_as_leader(message_set(2), leader_epoch=0)
        check(read_all(log), before)
        assert log.size_bytes < 300 * 12
    with started(tmp_path, **SETTINGS) as manager:
        check(read_all(manager.get(TP)), before)


def check(records, before):
    assert [record.offset for record in records] == [*range(0, 24, 3), 24, 25]
    assert all(record == before[record.offset] for record in records[:-2])


def test_a_crash_at_any_step_leaves_all_of_the_old_or_all_of_the_new(tmp_path):
    seen = set()
    for steps in range(200):
        directory = tmp_path / str(steps)
        fs = CrashingFileSystem()
        manager = make_manager(directory, fs=fs, runtime=EagerRuntime(), **SETTINGS)
        manager.start()
        log = manager.get_or_create(TP)
        fill(log)
        old = read_all(log)
        end, kept = every_third(log)
        fs.left = steps
        try:
            replace(log, end, kept)
        except Crash:
            finished = False
        else:
            finished = True
        fs.left = None
        manager.abandon()
        with started(directory, runtime=EagerRuntime(), **SETTINGS) as again:
            records = read_all(again.get(TP))
            assert records in (old, old[::3])
            seen.add(len(records))
            names = [path.name for path in again.get(TP).path.iterdir()]
            assert not [name for name in names if name.endswith((".swap", ".cleaned", PLAN))]
        if finished:
            break
    else:
        pytest.fail("it never came to its end")
    assert seen == {len(old), len(old[::3])}


def test_a_range_that_is_no_segment_s_and_offsets_that_go_back_are_refused(tmp_path):
    with started(tmp_path, **SETTINGS) as manager:
        log = manager.get_or_create(TP)
        fill(log)
        end, kept = every_third(log)
        segments = log.segments
        for wrong in ([], segments[::2], segments[-1:], segments[1::-1]):
            with pytest.raises(ValueError, match="not closed neighbouring"):
                replace_segments(log, wrong, [])
        with pytest.raises(ValueError, match="offset 0 is below"):
            replace(log, end, [kept[1], kept[0]])
        outside = segment_writer(log, segments[2].base_offset)
        outside.finish()
        with pytest.raises(ValueError, match="is not in"):
            replace_segments(log, segments[:2], [outside])
        assert len(read_all(log)) == 24


def test_everything_may_go(tmp_path):
    with started(tmp_path, **SETTINGS) as manager:
        log = manager.get_or_create(TP)
        fill(log)
        replace_segments(log, log.segments[:-1], [])
        assert read_all(log) == []
        log.append_as_leader(message_set(1), leader_epoch=0)
    with started(tmp_path, **SETTINGS) as manager:
        assert [record.offset for record in read_all(manager.get(TP), start=24)] == [24]


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_that_was_carried_out_does_not_come_back_with_the_power(tmp_path, seed):
    (tmp_path / "data").mkdir()
    fs = PowerCutFileSystem(tmp_path / "data", tmp_path / "after", seed)
    settings = {**SETTINGS, "runtime": EagerRuntime()}
    manager = make_manager(tmp_path / "data", fs=fs, **settings)
    manager.start()
    log = manager.get_or_create(TP)
    fill(log)
    log.flush()
    manager.upkeep.checkpoint()
    end, kept = every_third(log)
    replace(log, end, kept)
    found = read_all(log)
    # The next compaction has only begun when the power goes: its files are not whole.
    writer = segment_writer(log, 0)
    for data in kept[:4]:
        writer.append(data)
    fs.cut()
    writer.abandon()
    manager.abandon()
    with started(tmp_path / "after", **settings) as again:
        assert read_all(again.get(TP)) == found
    fs.close_all()


def test_a_replacement_that_cannot_be_ended_takes_its_directory_offline(tmp_path):
    class NoDescriptors(FileSystem):
        """Has none left once the plan is there."""

        def fsync(self, fd):
            pass

        def fsync_dir(self, path):
            if (path / PLAN).exists():
                raise OSError(errno.EMFILE, "Too many open files")

    settings = {**SETTINGS, "runtime": EagerRuntime()}
    manager = make_manager(tmp_path, fs=NoDescriptors(), **settings)
    manager.start()
    log = manager.get_or_create(TP)
    fill(log)
    old = read_all(log)
    with pytest.raises(StorageError):
        replace(log, *every_third(log))
    # What is appended or cut now would be replaced at the next start.
    assert log.offline is not None
    with pytest.raises(StorageError):
        log.truncate_to(2)
    manager.abandon()
    with started(tmp_path, **settings) as again:
        assert read_all(again.get(TP)) == old[::3]
