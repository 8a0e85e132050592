import errno
import threading

import pytest

from tests.support.logs import (
    TP,
    EagerRuntime,
    HookedFileSystem,
    append,
    read_all,
    reopened_log,
    start_log,
    started_log,
)
from tests.support.powercut import PowerCutFileSystem
from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.log.replacing import replace_segments, segment_writer
from zkbroker.log.segments.replacement import PLAN, commit_plan
from zkbroker.records import iter_entries

SETTINGS = {"segment_bytes": 1500, "cleanup_policy": "compact"}


class Crash(Exception):
    """Ends the process."""


class CrashingFileSystem(HookedFileSystem):
    """Raises `Crash` at the change after `left` more of them."""

    def __init__(self):
        changes = ("write", "fsync", "fsync_dir", "rename", "unlink")
        super().__init__(**dict.fromkeys(changes, self.count))
        self.left = None

    def count(self, *change):
        if self.left is not None:
            if self.left == 0:
                raise Crash
            self.left -= 1


def fill(log):
    for index in range(24):
        append(log, 1, magic=index % 3, size=300, prefix=f"{index}-")
    log.roll()


def replace(log, end, kept):
    """Replace the segments below an offset by ones with the given entries."""
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


def every_third(log, start=0):
    end = log.segments[-1].base_offset
    kept = []
    for offset in range(start, end, 3):
        data = log.read_bytes(offset, 1, end=log.log_end_offset)
        entry = next(iter_entries(data))
        kept.append(data[entry.position : entry.position + entry.size])
    return end, kept


def test_replacement_keeps_entries_at_their_offsets(tmp_path):
    with started_log(tmp_path, **SETTINGS) as log:
        fill(log)
        before = {record.offset: record for record in read_all(log)}
        held = log.read(1, 300, end=log.log_end_offset)
        replace(log, *every_third(log))
        held.slice.close()
        append(log, 2)
        check(read_all(log), before)
        assert log.size_bytes < 300 * 12
    with reopened_log(tmp_path, **SETTINGS) as log:
        check(read_all(log), before)


def check(records, before):
    assert [record.offset for record in records] == [*range(0, 24, 3), 24, 25]
    assert all(record == before[record.offset] for record in records[:-2])


def test_crash_at_any_step_leaves_old_or_new_segments(tmp_path):
    seen = set()
    for steps in range(200):
        directory = tmp_path / str(steps)
        fs = CrashingFileSystem()
        manager, log = start_log(directory, fs=fs, runtime=EagerRuntime(), **SETTINGS)
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
        with reopened_log(directory, runtime=EagerRuntime(), **SETTINGS) as log:
            records = read_all(log)
            assert records in (old, old[::3])
            seen.add(len(records))
            names = [path.name for path in log.path.iterdir()]
            assert not [name for name in names if name.endswith((".swap", ".cleaned", PLAN))]
        if finished:
            break
    else:
        pytest.fail("the replacement did not end")
    assert seen == {len(old), len(old[::3])}


def test_invalid_segment_ranges_and_offsets_are_refused(tmp_path):
    with started_log(tmp_path, **SETTINGS) as log:
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


def test_replacement_may_remove_every_entry(tmp_path):
    with started_log(tmp_path, **SETTINGS) as log:
        fill(log)
        replace_segments(log, log.segments[:-1], [])
        assert read_all(log) == []
        append(log, 1)
    with reopened_log(tmp_path, **SETTINGS) as log:
        assert [record.offset for record in read_all(log, start=24)] == [24]


@pytest.mark.parametrize("seed", range(12))
def test_finished_plan_is_not_repeated_after_power_cut(tmp_path, seed):
    (tmp_path / "data").mkdir()
    fs = PowerCutFileSystem(tmp_path / "data", tmp_path / "after", seed)
    settings = {**SETTINGS, "runtime": EagerRuntime()}
    manager, log = start_log(tmp_path / "data", fs=fs, **settings)
    fill(log)
    log.flush()
    manager.upkeep.checkpoint()
    end, kept = every_third(log)
    replace(log, end, kept)
    found = read_all(log)
    # The power fails while the next compaction writes its first file.
    writer = segment_writer(log, 0)
    for data in kept[:4]:
        writer.append(data)
    fs.cut()
    writer.abandon()
    manager.abandon()
    with reopened_log(tmp_path / "after", **settings) as log:
        assert read_all(log) == found
    fs.close_all()


def test_files_of_new_segments_are_on_stable_storage(tmp_path):
    # Recovery reads nothing below the recovery point, so no torn index would be noticed there.
    fs = PowerCutFileSystem(tmp_path, tmp_path / "after", seed=0)
    settings = {**SETTINGS, "index_interval_bytes": 0, "runtime": EagerRuntime()}
    manager, log = start_log(tmp_path, fs=fs, **settings)
    fill(log)
    replace(log, *every_third(log, start=2))
    stored = fs.model.current[log.path.name].current
    paths = [
        segment.path(suffix)
        for segment in log.segments[:-1]
        for suffix in (names.LOG, names.INDEX, names.TIMEINDEX)
    ]
    assert all(path.stat().st_size for path in paths)
    assert [path.name for path in paths if stored[path.name].stable != path.read_bytes()] == []
    manager.close()


def test_deletion_waits_for_a_replacement(tmp_path, monkeypatch):
    manager, log = start_log(tmp_path, **SETTINGS)
    fill(log)
    deletion = threading.Thread(target=manager.delete, args=[TP])

    def deleted_meanwhile(*arguments):
        deletion.start()
        deletion.join(0.2)
        commit_plan(*arguments)

    monkeypatch.setattr("zkbroker.log.replacing.commit_plan", deleted_meanwhile)
    replace(log, *every_third(log))
    deletion.join(60)
    assert manager.offline_dirs() == {}
    assert log.offline == "the partition was deleted"
    assert not log.path.exists()
    manager.close()


def test_unfinished_replacement_takes_log_offline(tmp_path):
    def no_descriptor_for_plan(path):
        if (path / PLAN).exists():
            raise OSError(errno.EMFILE, "Too many open files")

    fs = HookedFileSystem(fsync_dir=no_descriptor_for_plan)
    settings = {**SETTINGS, "runtime": EagerRuntime()}
    manager, log = start_log(tmp_path, fs=fs, **settings)
    fill(log)
    old = read_all(log)
    with pytest.raises(StorageError):
        replace(log, *every_third(log))
    # The next start would replace what is appended or truncated now.
    assert log.offline is not None
    with pytest.raises(StorageError):
        log.truncate_to(2)
    manager.abandon()
    with reopened_log(tmp_path, **settings) as log:
        assert read_all(log) == old[::3]
