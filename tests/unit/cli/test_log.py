import shutil

import pytest
from click.testing import CliRunner

from tests.support.golden_compaction import entries, open_stage, segments, stage_files
from tests.support.markdown import ROOT
from zkbroker.cli.main import cli

GOLDEN = ROOT / "tests/golden/data/segments/kafka-2.3.0/g-v2-none-0"


@pytest.fixture
def partition(tmp_path):
    return shutil.copytree(GOLDEN, tmp_path / "data" / "g-v2-none-0")


def test_check_describes_an_intact_log(partition):
    ran = CliRunner().invoke(cli, ["log", "check", str(partition)])
    assert ran.exit_code == 0, ran.output
    assert "1 segments" in ran.output
    assert "offsets 0 to 10" in ran.output


def test_repair_truncates_a_damaged_log_and_keeps_the_cut_bytes(partition):
    segment = partition / "00000000000000000000.log"
    sound = segment.read_bytes()
    segment.write_bytes(sound[:-3])
    checked = CliRunner().invoke(cli, ["log", "check", str(partition)])
    assert checked.exit_code == 1
    assert str(segment) in checked.output
    assert segment.read_bytes() == sound[:-3]
    repaired = CliRunner().invoke(cli, ["log", "repair", str(partition)])
    assert repaired.exit_code == 0, repaired.output
    assert "1 cuts" in repaired.output
    assert list(partition.glob("*.log.corrupt-*"))
    assert CliRunner().invoke(cli, ["log", "check", str(partition)]).exit_code == 0


def test_clean_removes_the_messages_that_its_dry_run_counts(tmp_path):
    opened = open_stage("kafka-2.3.0", "1-before", "c-v2-txn-keep", tmp_path / "data")
    opened.manager.close()
    directory = opened.directory
    before = {path.name: path.read_bytes() for path in directory.glob("*.log")}
    options = ["--segment-bytes", "1500", str(directory)]
    tried = CliRunner().invoke(cli, ["log", "clean", "--dry-run", *options])
    assert tried.exit_code == 0, tried.output
    assert "messages and" in tried.output
    assert "would go" in tried.output
    assert {path.name: path.read_bytes() for path in directory.glob("*.log")} == before
    done = CliRunner().invoke(cli, ["log", "clean", *options])
    assert done.exit_code == 0, done.output
    assert done.output == tried.output.replace("would go", "removed")
    genuine = segments(stage_files("kafka-2.3.0", "2-after-once", "c-v2-txn-keep"))
    found = {path.name: entries(path.read_bytes()) for path in directory.glob("*.log")}
    assert found == {name: entries(data) for name, data in genuine.items()}
    again = CliRunner().invoke(cli, ["log", "clean", *options])
    assert "nothing to compact" in again.output
    checked = CliRunner().invoke(cli, ["log", "check", str(directory)])
    assert checked.exit_code == 0, checked.output
