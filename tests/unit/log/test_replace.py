import pytest

from tests.support.logs import TP, InlineRuntime, make_manager, message_set, read_all, started
from zkbroker.log import FileSystem
from zkbroker.log.replace import PLAN
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
        log.append(message_set(1, magic=index % 3, size=300, prefix=f"{index}-"))
    log.roll()


def every_third(log):
    end = log.segments[-1].base_offset
    kept = []
    for offset in range(0, end, 3):
        data = log.read_bytes(offset, 1)
        entry = next(iter_entries(data))
        kept.append(data[entry.position : entry.position + entry.size])
    return end, kept


def test_replaced_segments_hold_what_was_kept_at_its_offsets(tmp_path):
    with started(tmp_path, **SETTINGS) as manager:
        log = manager.get_or_create(TP)
        fill(log)
        before = {record.offset: record for record in read_all(log)}
        held = log.read(1, 300)
        log.replace_segments(*every_third(log))
        held.slice.close()
        log.append(message_set(2))
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
        manager = make_manager(directory, fs=fs, runtime=InlineRuntime(), **SETTINGS)
        manager.start()
        log = manager.get_or_create(TP)
        fill(log)
        old = read_all(log)
        end, kept = every_third(log)
        fs.left = steps
        try:
            log.replace_segments(end, kept)
        except Crash:
            finished = False
        else:
            finished = True
        fs.left = None
        manager.abandon()
        with started(directory, runtime=InlineRuntime(), **SETTINGS) as again:
            records = read_all(again.get(TP))
            assert records in (old, old[::3])
            seen.add(len(records))
            names = [path.name for path in again.get(TP).directory.iterdir()]
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
        with pytest.raises(ValueError, match="no segment"):
            log.replace_segments(end - 1, kept)
        with pytest.raises(ValueError, match="offset 0 is not in"):
            log.replace_segments(end, [kept[1], kept[0]])
        assert len(read_all(log)) == 24


def test_everything_may_go(tmp_path):
    with started(tmp_path, **SETTINGS) as manager:
        log = manager.get_or_create(TP)
        fill(log)
        log.replace_segments(24, [])
        assert read_all(log) == []
        log.append(message_set(1))
    with started(tmp_path, **SETTINGS) as manager:
        assert [record.offset for record in read_all(manager.get(TP), start=24)] == [24]
