import shutil

import pytest
from click.testing import CliRunner

from tests.support.markdown import ROOT
from zkbroker.cli.main import cli

GOLDEN = ROOT / "tests/golden/data/segments/kafka-2.3.0/g-v2-none-0"


@pytest.fixture
def partition(tmp_path):
    return shutil.copytree(GOLDEN, tmp_path / "data" / "g-v2-none-0")


def test_a_sound_log_is_described(partition):
    ran = CliRunner().invoke(cli, ["log", "check", str(partition)])
    assert ran.exit_code == 0, ran.output
    assert "1 segments" in ran.output
    assert "offsets 0 to 10" in ran.output


def test_damage_is_found_repaired_and_kept_aside(partition):
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
