from click.testing import CliRunner

from tests.support.markdown import ROOT
from zkbroker.cli.main import cli

SEGMENT = ROOT / "tests/golden/data/segments/kafka-2.3.0/g-v2-none-0/00000000000000000000.log"


def test_output_equals_that_of_the_genuine_tool():
    ran = CliRunner().invoke(
        cli, ["dump-log", "--deep-iteration", "--print-data-log", "--files", str(SEGMENT)]
    )
    assert ran.exit_code == 0
    lines = ran.output.splitlines()
    assert lines[0] == f"Dumping {SEGMENT}"
    assert lines[1:] == SEGMENT.with_suffix(".dump.txt").read_text("utf-8").splitlines()


def test_missing_file_is_a_usage_error():
    ran = CliRunner().invoke(cli, ["dump-log"])
    assert ran.exit_code == 2
    assert "name at least one file" in ran.output
