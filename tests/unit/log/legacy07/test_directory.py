"""A directory of 0.7 logs: opening, refusals, clean stops."""

import errno

import pytest

from tests.support.legacy07 import open_logs, read
from tests.support.logs import HookedFileSystem
from zkbroker.errors import InvalidTopic, StorageError
from zkbroker.log.legacy07.directory import Claim
from zkbroker.records.legacy07 import build_message

ONE = build_message(b"hello")


def place(directory, name, files):
    (directory / name).mkdir()
    for start, data in files.items():
        (directory / name / f"{start:020d}.kafka").write_bytes(data)


def test_messages_survive_clean_stop_and_crash(tmp_path):
    logs = open_logs(tmp_path)
    logs.get_or_make("with space-1", 3).append(ONE, 1)
    logs.close()
    assert (tmp_path / "with space-1-3" / f"{0:020d}.kafka").read_bytes() == ONE
    for clean in (True, False):
        if not clean:
            (tmp_path / ".kafka_cleanshutdown").unlink()
        logs = open_logs(tmp_path)
        assert read(logs.get("with space-1", 3), 0, 100) == ONE
        assert logs.topics == {"with space-1"}
        assert logs.cuts == []
        logs.close()


def test_only_last_file_is_scanned_after_crash(tmp_path):
    bad = ONE[:-1] + b"?"
    place(tmp_path, "t-0", {0: bad, 15: ONE + bad + ONE})
    (tmp_path / ".kafka_cleanshutdown").touch()
    logs = open_logs(tmp_path)
    assert logs.get("t", 0).end == 60
    logs.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    logs = open_logs(tmp_path)
    assert logs.get("t", 0).end == 30
    (cut,) = logs.cuts
    assert (cut.position, cut.offset, cut.bytes_cut, cut.valid_messages_behind) == (15, 30, 30, 1)
    assert cut.kept_in.read_bytes() == bad + ONE
    assert read(logs.get("t", 0), 0, 100) == bad
    logs.close()


def test_gap_between_files_is_refused(tmp_path):
    place(tmp_path, "t-0", {0: ONE, 16: ONE})
    with pytest.raises(StorageError, match=r"begins at 16.*ends at 15"):
        open_logs(tmp_path)
    # The refused start released its lock.
    (tmp_path / "t-0" / f"{16:020d}.kafka").rename(tmp_path / "t-0" / f"{15:020d}.kafka")
    open_logs(tmp_path).close()


@pytest.mark.parametrize("name", ["nodash", "t-x", "t-99999999999", "-1"])
def test_folder_with_invalid_partition_name_is_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(StorageError, match="topic-partition"):
        open_logs(tmp_path)


def test_log_of_newer_kafka_is_refused(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").touch()
    with pytest.raises(StorageError, match="logs alone"):
        open_logs(tmp_path)


def test_stray_files_are_logged(tmp_path, caplog):
    (tmp_path / "notes.txt").touch()
    place(tmp_path, "t-0", {0: ONE})
    (tmp_path / "t-0" / "x.bak").touch()
    open_logs(tmp_path).close()
    assert [name for name in ("notes.txt", "x.bak") if name in caplog.text] == [
        "notes.txt",
        "x.bak",
    ]


def test_unreachable_partition_is_logged(tmp_path, caplog):
    place(tmp_path, "t-2", {0: ONE})
    open_logs(tmp_path, topic_partitions={"t": 2}).close()
    assert "t-2 cannot be reached" in caplog.text
    caplog.clear()
    open_logs(tmp_path, topic_partitions={"t": 3}).close()
    assert "cannot be reached" not in caplog.text


def test_directory_in_use_is_refused(tmp_path):
    logs = open_logs(tmp_path)
    with pytest.raises(StorageError, match="in use"):
        open_logs(tmp_path)
    logs.close()


def test_logs_max_is_enforced(tmp_path):
    logs = open_logs(tmp_path, max_logs=1)
    logs.get_or_make("t", 0)
    with pytest.raises(StorageError, match=r"legacy07\.logs\.max"):
        logs.get_or_make("t", 1)
    assert logs.get_or_make("t", 0) is logs.get("t", 0)
    logs.close()


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\x00", "a\x7f", "\ufffd", "x" * 256])
def test_topic_names_invalid_in_0_7_are_refused(tmp_path, topic):
    logs = open_logs(tmp_path)
    with pytest.raises(InvalidTopic):
        logs.check_topic(topic)
    logs.close()


def test_topic_names_valid_in_0_7_are_accepted(tmp_path):
    logs = open_logs(tmp_path)
    for topic in ("..x", "with space", "a-b", "ü", "x" * 255):
        logs.check_topic(topic)
    with pytest.raises(InvalidTopic, match="folder"):
        logs.get_or_make("x" * 254, 0)
    assert list(tmp_path.glob("x*")) == []
    logs.close()


def test_refused_views_leave_logs_usable(tmp_path):
    logs = open_logs(tmp_path)
    empty = logs.get_or_make("t", 0)
    logs.get_or_make("t", 1).append(ONE, 1)
    with pytest.raises(StorageError, match=r"t-1 holds a 0\.7 log of its own"):
        logs.make_views("t", [Claim(0, 0, 0), Claim(1, 1, 0)])
    empty.append(ONE, 1)
    assert not logs.views()
    logs.close()


@pytest.mark.parametrize("known", [(), (0,), (1,), (0, 1)])
def test_failed_views_leave_no_files_and_logs_usable(tmp_path, known):
    def full(path, *flags):
        folder = path.parent if path.suffix == ".map" else path
        if folder.name == "t-1":
            raise OSError(errno.ENOSPC, "No space left on device")

    fs = HookedFileSystem()
    logs = open_logs(tmp_path, fs=fs)
    for partition in known:
        logs.get_or_make("t", partition)
    claims = [Claim(0, 0, 7), Claim(1, 1, 8)]
    before = sorted(tmp_path.rglob("*"))
    fs.before |= {"mkdir": full, "open": full}
    with pytest.raises(StorageError, match="No space left"):
        logs.make_views("t", claims)
    assert sorted(tmp_path.rglob("*")) == before
    assert not logs.views()
    assert set(logs.all()) == {("t", each) for each in known}
    for log in logs.all().values():
        log.flush()
    fs.before.clear()
    logs.make_views("t", claims)
    assert {key[1]: each.next_offset for key, each in logs.views().items()} == {0: 7, 1: 8}
    logs.close()
    logs = open_logs(tmp_path)
    assert set(logs.views()) == {("t", 0), ("t", 1)}
    logs.close()


def test_topic_of_views_gets_no_log_of_its_own(tmp_path):
    logs = open_logs(tmp_path)
    logs.make_views("t", [Claim(1, 0, 0)])
    with pytest.raises(StorageError, match="t-0 cannot be made"):
        logs.get_or_make("t", 0)
    assert set(logs.all()) == {("t", 1)}
    assert not (tmp_path / "t-0").exists()
    logs.close()
