"""`dump-log` and `log check` on files of Kafka 0.7, compared with the genuine tool."""

import re
import tarfile

import pytest
from click.testing import CliRunner

from tests.support.legacy07 import DATA, unpack
from tests.support.logs import flip_bit
from zkbroker.admin.adopt import survey
from zkbroker.cli.main import cli
from zkbroker.errors import StorageError

NAMES = ["kafka-0.7.2", *(f"kafka-0.7.2-more/{n}" for n in ("clean-stop", "killed-torn", "wire"))]
LINE = re.compile(
    r"^(Starting offset: \d+|offset: \d+ isvalid: .*|tail of the log is at .*)$", re.MULTILINE
)


def genuine_dumps(name):
    with tarfile.open(DATA / "dumps.tar.xz") as archive:
        return {
            member.name: archive.extractfile(member).read().decode("utf-8", "replace")
            for member in archive
            if member.isfile() and member.name.startswith(name + "/")
        }


def run(*arguments):
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.mark.parametrize("name", NAMES)
def test_dump_equals_that_of_genuine_tool(tmp_path, name):
    root = unpack(tmp_path, name)
    dumps = genuine_dumps(name)
    assert dumps
    for dump, text in dumps.items():
        path = tmp_path / dump.replace(".dump.txt", ".kafka")
        result = run("dump-log", "--print-data-log", path)
        assert result.exit_code == 0
        found = LINE.findall(result.output)
        expected = LINE.findall(text)
        assert found[:-1] == expected[:-1], dump
        # Ours also describes the damage behind the last message.
        assert found[-1].partition(";")[0] == expected[-1]
        assert (";" in found[-1]) == (
            root.name == "killed-torn"
            and not re.search(r"(crc|mid)-0/", dump)
            and "000.d" not in dump
        )
    if name.endswith("wire"):
        first = path.parent.parent / "g07w-0" / f"{0:020d}.kafka"
        assert "payload:\tplain 1\n" in run("dump-log", "--print-data-log", first).output


def test_dump_lists_messages_inside_wrappers(tmp_path):
    path = unpack(tmp_path, "kafka-0.7.2-more/wire") / "g07w-0" / f"{0:020d}.kafka"
    plain = run("dump-log", path).output
    assert "payload:" not in plain
    assert "|" not in plain
    deep = run("dump-log", "--deep-iteration", "--print-data-log", path).output
    next_offsets = [int(n) for n in re.findall(r"\| next offset: (\d+)", deep)]
    assert next_offsets == [95, 95, 160, 160, 160, 236, 252, 305]
    assert "| payload:\tsnappy 2" in deep


def test_log_check_and_repair_match_genuine_recovery(tmp_path):
    root = unpack(tmp_path, "kafka-0.7.2-more/killed-torn")
    result = run("log", "check", root)
    assert result.exit_code == 1
    assert result.output.count("a repair cuts") == 7
    assert "position 1042" in result.output
    assert "597 bytes, with 8 valid messages after the damage" in result.output
    # Up to the first damage, as after the recovery of a genuine broker.
    assert f"{root / 'g07s-mid-0'}: 2 segments" in result.output
    assert "offsets 0 to 3114" in result.output
    repaired = run("log", "repair", root)
    assert repaired.exit_code == 0
    assert "7 cuts" in repaired.output
    genuine = unpack(tmp_path, "kafka-0.7.2-more/recovered")
    for path in genuine.rglob("*.kafka"):
        assert (root / path.relative_to(genuine)).read_bytes() == path.read_bytes()
    assert run("log", "check", root).exit_code == 0


def test_log_check_reads_earlier_files_and_wrappers(tmp_path):
    root = unpack(tmp_path, "kafka-0.7.2-more/clean-stop")
    assert run("log", "check", root).exit_code == 0
    first = root / "g07s-crc-0" / f"{0:020d}.kafka"
    flip_bit(first, 40)
    result = run("log", "check", root / "g07s-crc-0")
    assert result.exit_code == 1
    assert f"{first} position 34: the CRC does not match" in result.output


def test_adopt_names_setting_for_directory_of_0_7(tmp_path):
    root = unpack(tmp_path, "kafka-0.7.2-more/clean-stop")
    with pytest.raises(StorageError) as raised:
        survey([root])
    assert "is a log of Kafka 0.7" in str(raised.value)
    assert f"legacy07.log.dir={root}" in str(raised.value)
