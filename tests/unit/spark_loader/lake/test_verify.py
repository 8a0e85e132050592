"""The offline proof notices whatever was done to a lake."""

import json

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from spark_loader import LoadError
from tests.support.loaded import loaded_files
from tests.support.loading import proved


@pytest.mark.parametrize("harm", ["change", "shorten", "remove", "repeat", "move"])
def test_verify_notices_every_harm(run, output, harm, command):
    run()
    assert "no gap, no duplicate" in command("verify", "--output", output)
    file = loaded_files(output)[0]
    content = file.read_bytes()
    if harm == "change":
        file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif harm == "shorten":
        file.write_bytes(content[:-1])
    elif harm == "remove":
        file.unlink()
    elif harm == "repeat":
        twin = file.with_name("twin.parquet")
        twin.write_bytes(content)
        commits = sorted((output / "_delta_log").glob("*.json"))
        lines = map(json.loads, commits[-1].read_text().splitlines())
        [add] = [each["add"] for each in lines if file.name in each.get("add", {}).get("path", "")]
        add["path"] = add["path"].replace(file.name, twin.name)
        later = commits[-1].with_name(f"{len(commits):020d}.json")
        later.write_text(json.dumps({"add": add}) + "\n")
    else:
        moved = CommitProperties(app_transactions=[Transaction("zkbroker:t-0", 7)])
        table = DeltaTable(str(output))
        table.create_write_transaction([], "append", table.schema(), commit_properties=moved)
    with pytest.raises(LoadError, match="problem"):
        command("verify", "--output", output)


def test_a_parquet_file_that_nothing_names_is_counted_and_no_problem(run, output, command):
    run()
    file = loaded_files(output)[0]
    file.with_name("stranger.parquet").write_bytes(file.read_bytes())
    assert "1 file beside them, for vacuum" in command("verify", "--output", output)
    assert proved(output).rows == 140


def test_the_checksum_of_rows_is_that_of_any_reader(run, output):
    import zlib

    run()
    values = DeltaTable(str(output)).to_pyarrow_table(columns=["value"]).column(0).to_pylist()
    assert proved(output).rows_crc == sum(map(zlib.crc32, values))
