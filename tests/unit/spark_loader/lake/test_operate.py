"""An operator moves positions; status and audit stay consistent."""

import json
from types import SimpleNamespace

import pytest

from spark_loader import LoadError
from spark_loader.lake import operate
from spark_loader.reading.positions import TopicPartition
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loaded import loaded_offsets
from tests.support.loading import LOCAL, verified
from tests.support.transactional import TransactionalLog
from zkbroker.types import Partition07


def test_rewind_removes_rows_and_next_load_restores_them(run, cluster, output, command):
    run()
    cluster.append("t", 0, [b"y"] * 50)
    run()
    printed = command("rewind", output, "-t", "t", "--partition", 0, "--to", 120)
    assert printed == "t-0: the next load begins at offset 120\n"
    assert loaded_offsets(output)["t", 0] == [*range(120)]
    assert verified(output).unsealed == 0
    assert command("diff", output, "--from-run", 2) == "t-0: 120 here, 150 there\n"
    assert run().rows == 30
    assert command("rewind", output, "-t", "t", "--to", 0).count("\n") == 3
    assert run().rows == 190
    verified(output)
    with pytest.raises(LoadError, match="not loaded"):
        command("rewind", output, "-t", "t", "--to", 10_000)


def test_rewind_of_0_7_cuts_neither_files_nor_entries():
    source = TopicPartition("t", Partition07(0, 0))
    files = [
        SimpleNamespace(source=source, start=start, until=until)
        for start, until in ((200, 260), (100, 150), (0, 40))
    ]
    runs = [(110, 210), (60, 110)]
    found = [SimpleNamespace(entries=[each]) for each in runs]
    assert operate._rewound(files, source, 220, lambda offset: found) == 60
    assert operate._rewound(files, source, 260, lambda offset: []) == 260


def test_setting_position_forward_records_gap(run, cluster, output, command):
    run()
    cluster.append("t", 1, [b"skipped"] * 10 + [b"kept"] * 5)
    command("set", output, "-t", "t", "--partition", 1, "--to", 50)
    assert run().rows == 5
    assert verified(output).gap_offsets == 10
    command("set", output, "-t", "t", "--partition", 1, "--to", 45)
    assert run().rows == 10
    assert verified(output).gap_offsets == 5


def test_setting_position_of_unknown_partition_is_refused(run, output, command):
    run()
    given = ["set", output, "-t", "t", "--to", "1"]
    with pytest.raises(
        LoadError, match=r"t-9 was never loaded here: name the cluster \(-b or -z\)"
    ):
        command(*given, "--partition", "9")
    with pytest.raises(
        LoadError, match="no t-9 in the cluster: topic t has the partitions 0, 1, 2"
    ):
        command(*given, "--partition", "9", "-b", "h:1")
    given[3] = "tt"
    with pytest.raises(LoadError, match="topic tt does not exist"):
        command(*given, "--partition", "0", "-b", "h:1")
    assert "t-9" not in command("status", output)


def test_setting_position_during_unfinished_run_is_refused(run, output, command):
    run()
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, 3), topics=["t"], output=str(output) + "-2")
    with pytest.raises(LoadError, match="unfinished"):
        command("set", "--output", f"{output}-2", "-t", "t", "--partition", 0, "--to", 1)


def test_status_and_audit_match_cluster(run, cluster, output, command):
    run(group="g")
    cluster.append("t", 0, [b"z"] * 4)
    shown = json.loads(command("status", output, "-b", "h:1", "--json"))
    assert [(e["position"], e["lag"], e["group"]) for e in shown["partitions"]] == [
        (100, 4, 100),
        (40, 0, 40),
        (0, 0, 0),
    ]
    books = json.loads(command("audit", output, "-b", "h:1", "--json"))
    assert [(e["appended"], e["rows"], e["pending"], e["difference"]) for e in books] == [
        (104, 100, 4, 0),
        (40, 40, 0, 0),
        (0, 0, 0, 0),
    ]
    assert command("diff", output, "--group", "g", "-b", "h:1") == ("no difference\n")


def test_aborted_offsets_are_counted_separately_from_gaps(run, cluster, output, command, tmp_path):
    log = TransactionalLog(tmp_path / "made")
    log.send(1, 3)
    log.send(2, 2)
    log.commit(1)
    log.abort(2)
    log.send(2, 4)
    cluster.store("x", 0, log)
    given = {"topics": ["x"], "fallback": "timestamp", "isolation_level": "read_committed"}
    assert run(**given).rows == 3
    report = verified(output)
    assert (report.rows, report.aborted_offsets, report.absent_offsets) == (3, 2, 2)
    [book] = json.loads(command("audit", output, "-b", "h:1", "--json"))
    wanted = ("appended", "rows", "aborted", "absent", "pending", "difference")
    assert [book[name] for name in wanted] == [11, 3, 2, 2, 4, 0]
    shown = json.loads(command("status", output, "-b", "h:1", "--json"))
    assert (shown["aborted"], shown["partitions"][0]["lag"]) == (2, 4)
    assert "2 offsets of aborted transactions" in command("status", output)
    assert "2 absent from the log, 2 aborted" in command("verify", output)
    log.commit(2)
    cluster.store("x", 0, log)
    assert run(**given).rows == 4
    verified(output)
    # A rewind removes them from the audit with the rows; the next load counts them again.
    command("rewind", output, "-t", "x", "--partition", 0, "--to", 0)
    assert run(**given).rows == 7
    assert verified(output).aborted_offsets == 2


def test_resumed_run_keeps_planned_isolation_level(run, cluster, output, tmp_path):
    log = TransactionalLog(tmp_path / "made")
    log.send(1, 3)
    log.abort(1)
    log.send(1, 4)
    cluster.store("x", 0, log)
    given = {"topics": ["x"], "fallback": "timestamp"}
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, 4), **given)
    # Its range goes beyond the last stable offset, where committed records cannot be read yet.
    assert run(**given, isolation_level="read_committed").rows == 7
    assert verified(output).aborted_offsets == 0
