import random
import shutil
from pathlib import Path

import pytest

from tests.support.damage import Expectation, log_files, recovered, store_log
from tests.support.logs import TP, message_set, started
from zkbroker.admin.log_check import check_logs, repair_logs
from zkbroker.admin.transactions import abort_transactions
from zkbroker.errors import StorageError
from zkbroker.log import names
from zkbroker.log.lock import DirectoryLock

SEGMENTS = Path(__file__).parents[2] / "golden" / "data" / "segments"


@pytest.fixture
def stored(tmp_path):
    store_log(tmp_path / "data")
    return tmp_path / "data"


def content(root):
    return {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_intact_log_has_no_findings(stored):
    before = content(stored)
    (check,) = check_logs([stored])
    assert check.findings == []
    assert check.directory == stored / str(TP)
    assert (check.log_start_offset, check.log_end_offset) == (0, 40)
    assert check.segments == len(log_files(stored))
    assert content(stored) == before


@pytest.mark.parametrize("version", ["kafka-0.8.2.2", "kafka-2.3.0"])
def test_genuine_logs_have_no_findings(version):
    checks = list(check_logs([SEGMENTS / version]))
    assert len(checks) == len(list((SEGMENTS / version).iterdir()))
    assert [check.findings for check in checks] == [[]] * len(checks)


def test_damage_is_reported_with_bytes_lost_and_repaired(stored):
    expected = Expectation(stored)
    path = log_files(stored)[1]
    position, _, _ = expected.files[path.name][1]
    data = bytearray(path.read_bytes())
    data[position + 20] ^= 255
    path.write_bytes(data)
    before = content(stored)
    (check,) = check_logs([stored / str(TP)])
    assert content(stored) == before
    finding, *behind = check.findings
    assert (finding.file, finding.position) == (path, position)
    assert finding.bytes_lost == len(data) - position
    assert "position" in str(finding)
    assert "valid messages after the damage" in str(finding)
    assert [each.file for each in behind] == log_files(stored)[2:]
    wanted = expected.before(path.name, position)

    cuts = repair_logs([stored], now_ms=77)
    assert [cut.file for cut in cuts] == [each.file for each in check.findings]
    assert [cut.bytes_cut for cut in cuts] == [each.bytes_lost for each in check.findings]
    assert [cut.valid_messages_behind for cut in cuts] == [
        each.valid_messages_behind for each in check.findings
    ]
    assert cuts[0].kept_in == path.with_name(path.name + ".corrupt-77")
    (check,) = check_logs([stored])
    assert check.findings == []
    records, _ = recovered(stored)
    assert records == wanted


def test_gap_between_segments_is_reported_and_not_cut(stored):
    files = log_files(stored)
    before = [path.read_bytes() for path in files]
    files[1].unlink()
    (check,) = check_logs([stored])
    assert check.findings == []
    assert check.holes == [(int(files[1].stem), int(files[2].stem) - 1)]
    assert repair_logs([stored]) == []
    assert [path.read_bytes() for path in log_files(stored)] == [before[0], *before[2:]]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_wrong_index_entries_are_reported_and_rebuilt(tmp_path, suffix):
    with started(tmp_path) as manager:
        log = manager.get_or_create(TP)
        for at in range(100):
            log.append_as_leader(message_set(3, timestamp=1000 * at), leader_epoch=0)
    target = tmp_path / str(TP) / f"{0:020d}{suffix}"
    good = target.read_bytes()
    # The last byte of the fourth entry's position, or of its timestamp.
    at = 31 if suffix == ".index" else 43
    target.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
    (check,) = check_logs([tmp_path])
    assert [finding.file for finding in check.findings] == [target]
    repair_logs([tmp_path])
    assert target.read_bytes() == good
    assert [check.findings for check in check_logs([tmp_path])] == [[]]


def test_damaged_snapshot_and_checkpoints_are_reported(stored):
    partition = stored / str(TP)
    (partition / "00000000000000000012.snapshot").write_bytes(b"\0\1junkjunk")
    (partition / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n")
    (stored / "log-start-offset-checkpoint").write_text("1\n0\n")
    first, second = check_logs([stored])
    assert [finding.file.name for finding in first.findings] == ["log-start-offset-checkpoint"]
    assert {finding.file.name for finding in second.findings} == {
        "00000000000000000012.snapshot",
        "leader-epoch-checkpoint",
    }


def test_directory_in_use_is_checked_but_not_repaired(tmp_path):
    with started(tmp_path) as manager:
        manager.get_or_create(TP).append_as_leader(message_set(3), leader_epoch=0)
        (check,) = check_logs([tmp_path])
        assert check.log_end_offset == 3
        assert check.findings == []
        with pytest.raises(StorageError, match="in use"):
            repair_logs([tmp_path])
    assert repair_logs([tmp_path]) == []


@pytest.mark.parametrize("path", [Path(), Path("inner/..")])
def test_working_directory_is_repaired_under_lock_of_its_data_directory(stored, monkeypatch, path):
    inner = stored / str(TP) / "inner"
    inner.mkdir()
    monkeypatch.chdir(inner.parent)
    assert repair_logs([path]) == []
    assert not (inner.parent / names.LOCK).exists()
    lock = DirectoryLock(stored)
    try:
        with pytest.raises(StorageError, match="in use"):
            repair_logs([path])
    finally:
        lock.release()


def test_path_that_is_not_a_directory_is_refused(tmp_path):
    with pytest.raises(StorageError, match="not a directory"):
        list(check_logs([tmp_path / "nothing"]))


def test_repair_cuts_exactly_what_check_reports(stored, tmp_path):
    chosen = random.Random(5)
    for round_ in range(30):
        work = tmp_path / f"work{round_}"
        shutil.copytree(stored, work)
        path = chosen.choice(log_files(work))
        data = bytearray(path.read_bytes())
        data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        path.write_bytes(data)
        (check,) = check_logs([work])
        lost = [finding for finding in check.findings if finding.bytes_lost]
        cuts = repair_logs([work])
        assert [(cut.file, cut.bytes_cut) for cut in cuts] == [
            (finding.file, finding.bytes_lost) for finding in lost
        ]


def test_directory_without_log_files_is_refused_and_unchanged(tmp_path):
    (tmp_path / "dbus-1").mkdir()
    (tmp_path / "dbus-1" / "session.conf").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    for work in (lambda: list(check_logs([tmp_path])), lambda: repair_logs([tmp_path])):
        with pytest.raises(StorageError, match="holds no log"):
            work()
    for dry_run in (True, False):
        with pytest.raises(StorageError, match="holds no log"):
            abort_transactions([tmp_path], dry_run=dry_run)
    assert sorted(tmp_path.rglob("*")) == before
