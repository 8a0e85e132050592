import pytest
from click.testing import CliRunner

from zkbroker.cli.main import cli


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("asked:4", "give TOPIC-PARTITION:OFFSET"),
        ("asked-0", "give TOPIC-PARTITION:OFFSET"),
        ("asked-0:x", "OFFSET is a number, or end"),
        ("asked-0:-5", "OFFSET is a number, or end"),
        (f"asked-0:{1 << 63}", "OFFSET is a number, or end"),
    ],
)
def test_a_mistyped_partition_is_refused(given, said):
    ran = CliRunner().invoke(cli, ["records", "delete", "-b", "127.0.0.1:1", given])
    assert ran.exit_code == 1
    assert said in str(ran.exception)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"partitions":[{"topic":"t"}]}', 'give {"partitions":[{"topic":"t","partition":0'),
        ("[]", 'give {"partitions":[{"topic":"t","partition":0'),
        (
            '{"partitions":[' + ",".join(['{"topic":"t","partition":0,"offset":1}'] * 2) + "]}",
            "names a partition twice",
        ),
    ],
)
def test_a_file_of_another_form_is_refused(tmp_path, text, said):
    file = tmp_path / "offsets.json"
    file.write_text(text)
    given = ["records", "delete", "-b", "127.0.0.1:1", "--file", str(file)]
    assert said in str(CliRunner().invoke(cli, given).exception)
