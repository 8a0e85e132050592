"""The command line: commands, messages and help."""

import json
import shlex

import pytest
from rich.table import Table

from spark_loader.cli import cli, main
from spark_loader.cli.output import print_table
from spark_loader.errors import LoadError
from spark_loader.load import job
from spark_loader.plurals import counted
from tests.support.inline_spark import Crash, CrashingFileSystem, InlineSpark
from tests.support.loading import LOCAL
from tests.support.transactional import TransactionalLog
from zkbroker.errors import ConfigError


class Started(InlineSpark):
    """A session that counts how often it is started and stopped."""

    log: list[str]

    def __init__(self, log):
        super().__init__()
        self.log = log
        log.append("start")

    def stop(self):
        self.log.append("stop")


@pytest.fixture
def sessions(monkeypatch, cluster):
    log: list[str] = []
    monkeypatch.setattr(job, "interruptible_session", lambda master, conf: Started(log))
    monkeypatch.setattr(job, "NetworkAccess", lambda: cluster)
    return log


def test_spark_starts_only_for_new_records(sessions, cluster, output, command):
    load = ("load", output, "-b", "h:1", "-t", "t", "--quiet")
    printed = command(*load)
    assert printed.startswith("140 rows in ")
    assert "run 1: 1 file, " in printed
    assert sessions == ["start", "stop"]
    assert command(*load) == f"nothing new: everything in the topics is in {output} already\n"
    assert sessions == ["start", "stop"]
    cluster.append("t", 1, [b"x"])
    printed = command(*load)
    assert printed.startswith("1 row in ")
    assert "run 2: 1 file, " in printed
    assert sessions == ["start", "stop", "start", "stop"]


def test_plan_accepts_every_load_option(cluster, output, command, tmp_path):
    options = {name for each in cli.commands["load"].params for name in each.opts}
    assert options <= {name for each in cli.commands["plan"].params for name in each.opts}
    given = "--access-log --headers --max-time 1m --conf spark.a=b --format raw --json"
    shown = command("plan", output, "-b", "h:1", "-t", "t", *given.split())
    [mapper] = json.loads(shown)["mappers"]
    assert len(mapper) == 2
    log = TransactionalLog(tmp_path / "made")
    log.send(1)
    cluster.store("x", 0, log)
    for level, planned in (("read_uncommitted", 1), ("read_committed", 0)):
        shown = command(
            "plan", output, "-b", "h:1", "-t", "x",
            "--isolation-level", level, "--json",
        )  # fmt: skip
        assert len(json.loads(shown)["mappers"]) == planned
    with pytest.raises(Exception, match="give one of"):
        command(
            "plan", output, "-b", "h:1", "-t", "t", "--access-log",
            "--event-time-json", "at",
        )  # fmt: skip


def test_piped_table_is_not_truncated(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    table = Table("topic", "cause")
    table.add_row("t" * 100, "c " * 100)
    print_table(table)
    [row] = [line for line in capsys.readouterr().out.splitlines() if "ttt" in line]
    assert "t" * 100 in row
    assert ("c " * 100).strip() in row


def test_mistyped_command_is_refused_with_suggestion(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["stauts"])
    assert stopped.value.code == 2
    assert "No such command 'stauts'. Did you mean status?" in capsys.readouterr().err


@pytest.mark.parametrize("debug", [False, True])
def test_spark_error_shows_cause_and_traceback_with_debug(
    sessions, cluster, output, monkeypatch, capsys, debug
):
    class SaidBySpark(Exception):
        __module__ = "py4j.protocol"

    def fail(self, function):
        raise SaidBySpark("An error occurred\nCaused by: java.io.IOException: No space\n\tat x.y")

    monkeypatch.setattr(Started, "map", fail)
    arguments = ["load", str(output), "-b", "h:1", "-t", "t", *(["--debug"] if debug else [])]
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 1
    printed = capsys.readouterr().err
    assert printed.endswith("error: a mapper failed: IOException: No space\n")
    assert (printed.count("\n") == 1) != debug
    assert ("Traceback" in printed) == debug


def test_help_lists_commands_with_whole_first_sentence(command):
    printed = command("--help")
    printed = " ".join(printed.split())
    assert "as a new beginning, where checkpoints are lost." in printed


@pytest.mark.parametrize("name", [None, *cli.commands])
def test_help_examples_parse(name):
    shown = (cli if name is None else cli.commands[name]).epilog
    assert shown is not None
    lines = shown.replace("\\\n", "").splitlines()[2:]
    assert lines
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "zkbroker-load"
        wanted = words.pop(0) if words[0] in cli.commands else "load"
        assert name in (None, wanted)
        cli.commands[wanted].make_context(wanted, words)


@pytest.mark.parametrize(
    "words",
    [
        ["convert"],
        ["adopt"],
        ["replay-quarantine"],
        ["rewind", "-t", "t", "--to", "1"],
        ["set", "-t", "t", "--partition", "0", "--to", "1"],
        ["optimize"],
        ["vacuum"],
        ["verify"],
        ["status"],
        ["audit"],
        ["diff", "--from-run", "1"],
    ],
)
def test_misspelt_directory_is_not_created(output, command, words):
    with pytest.raises(LoadError, match=f"{output}"):
        command(*words, output)
    assert not output.exists()


def test_load_without_cluster_names_required_options(output, command):
    for name in ("load", "plan"):
        with pytest.raises(ConfigError, match=r"give -b HOST:PORT \(brokers\) or -z"):
            command(name, output, "-t", "t")


def test_output_that_is_a_file_is_refused(cluster, output, command):
    output.write_text("mine")
    with pytest.raises(LoadError, match=r"lake.*: Not a directory$"):
        command("set", output, "-t", "t", "--partition", "0", "--to", "1")


def test_status_of_unfinished_first_run_has_no_positions(run, output, command):
    with pytest.raises(Crash):
        run(CrashingFileSystem(LOCAL, 3))
    assert command("status", output) == "run 1 is unfinished; the next load takes it up\n"


def test_diff_shows_partition_missing_from_one_run(run, cluster, output, command):
    run()
    cluster.append("u", 0, [b"x"])
    command("set", output, "-b", "h:1", "-t", "u", "--partition", "0", "--to", "7")
    assert command("diff", output, "--from-run", "1") == "u-0: 7 here, nothing there\n"


def test_counted_nouns_are_pluralized():
    assert [counted(n, "file") for n in (0, 1, 2, 1000)] == [
        "0 files",
        "1 file",
        "2 files",
        "1,000 files",
    ]
