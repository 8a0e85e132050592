"""Columns come between loads; a type stays what it was."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_loader.columns.spec import ValueColumns
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.evolution import require_fitting
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loading import LOCAL, proved
from zkbroker.errors import ConfigError

VALUES = [b'{"a": 1, "b": "x", "m": 1.5}'] * 3
ONE = ValueColumns.json("a:int,m:decimal(5,2)")
TWO = ValueColumns.json("a:int,b:string")


class CrashingOnceDone(CrashingFileSystem):
    """Stops when the offsets of the first mapper are there."""

    def _step(self, name: str) -> None:
        super()._step(name)
        if name == "after publish 00000.json":
            self.dead = True
            raise Crash(name)


@pytest.fixture
def load(run, cluster):
    def load(columns, **fields):
        cluster.append("e", 0, VALUES)
        return run(topics=["e"], columns=columns, **fields)

    return load


def rows(output):
    table = pa.table(DeltaTable(output).to_pyarrow_table())
    return table.sort_by("offset").select(["a", "b", "m"]).to_pylist()


def test_files_without_a_column_are_null_there(load, output):
    load(None)
    load(ONE)
    load(TWO)
    found = rows(output)
    assert [row["a"] for row in found] == [None] * 3 + [1] * 6
    assert [row["b"] for row in found] == [None] * 6 + ["x"] * 3
    assert [row["m"] is None for row in found] == [True] * 3 + [False] * 3 + [True] * 3
    assert proved(output).rows == 9


def test_another_type_is_refused_before_anything_is_read(load, output, command):
    load(ONE)
    with pytest.raises(ConfigError, match=r"column a would be long; what was loaded .* a as int"):
        load(ValueColumns.json("a:long"))
    with pytest.raises(ConfigError, match=r"decimal\(6,2\)"):
        load(ValueColumns.json("m:decimal(6,2)"))
    with pytest.raises(ConfigError, match="column a would be string"):
        command("replay-quarantine", output, "--columns-json", "a:string")
    load(ValueColumns.json("long_a=a:long"))
    assert proved(output).rows == 12


def test_what_an_unfinished_run_has_written_counts_as_loaded(load, output):
    with pytest.raises(Crash):
        load(ONE, filesystem=CrashingOnceDone(LOCAL))
    checkpoints = Checkpoints(LOCAL, str(output))
    require_fitting(checkpoints, ONE)
    with pytest.raises(ConfigError, match="column a would be long"):
        require_fitting(checkpoints, ValueColumns.json("a:long"))
    load(ONE)
    assert proved(output).rows == 3
    assert load(ONE).rows == 6
