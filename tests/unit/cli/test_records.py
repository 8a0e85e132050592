import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("asked:4", "give TOPIC-PARTITION:OFFSET"),
        ("asked-0", "give TOPIC-PARTITION:OFFSET"),
        ("asked-0:x", "OFFSET is a number, or end"),
        ("asked-0:-5", "OFFSET is a number, or end"),
        (f"asked-0:{1 << 63}", "OFFSET is a number, or end"),
    ],
)
def test_invalid_partition_or_offset_is_refused(given, message):
    ran = CliRunner().invoke(cli, ["records", "delete", "-b", "127.0.0.1:1", given])
    assert ran.exit_code == 1
    assert message in str(ran.exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"partitions":[{"topic":"t"}]}', 'give {"partitions":[{"topic":"t","partition":0'),
        ("[]", 'give {"partitions":[{"topic":"t","partition":0'),
        (
            '{"partitions":[' + ",".join(['{"topic":"t","partition":0,"offset":1}'] * 2) + "]}",
            "names a partition twice",
        ),
    ],
)
def test_invalid_offset_file_is_refused(tmp_path, text, message):
    file = tmp_path / "offsets.json"
    file.write_text(text)
    given = ["records", "delete", "-b", "127.0.0.1:1", "--file", str(file)]
    assert message in str(CliRunner().invoke(cli, given).exception)
