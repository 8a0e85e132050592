"""Columns may be added between loads; their types cannot change."""

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_loader.columns.spec import ValueColumns
from spark_loader.lake.evolution import require_fitting
from tests.support.inline_spark import Crash, CrashingFileSystem
from tests.support.loading import LOCAL, verified
from zkbroker.errors import ConfigError

VALUES = [b'{"a": 1, "b": "x", "m": 1.5}'] * 3
ONE = ValueColumns.json("a:int,m:decimal(5,2)")
TWO = ValueColumns.json("a:int,b:string")


@pytest.fixture
def load(run, cluster):
    def load(columns, **fields):
        cluster.append("e", 0, VALUES)
        return run(topics=["e"], columns=columns, **fields)

    return load


def rows(output):
    table = pa.table(DeltaTable(output).to_pyarrow_table())
    return table.sort_by("offset").select(["a", "b", "m"]).to_pylist()


def test_missing_columns_read_as_null(load, output):
    load(None)
    load(ONE)
    load(TWO)
    found = rows(output)
    assert [row["a"] for row in found] == [None] * 3 + [1] * 6
    assert [row["b"] for row in found] == [None] * 6 + ["x"] * 3
    assert [row["m"] is None for row in found] == [True] * 3 + [False] * 3 + [True] * 3
    assert verified(output).rows == 9


def test_changed_column_type_is_refused_before_loading(load, output, command):
    load(ONE)
    with pytest.raises(ConfigError, match=r"column a would be long; what was loaded .* a as int"):
        load(ValueColumns.json("a:long"))
    with pytest.raises(ConfigError, match=r"decimal\(6,2\)"):
        load(ValueColumns.json("m:decimal(6,2)"))
    with pytest.raises(ConfigError, match="column a would be string"):
        command("replay-quarantine", output, "--columns-json", "a:string")
    load(ValueColumns.json("long_a=a:long"))
    assert verified(output).rows == 12


def test_column_types_of_unfinished_run_are_binding(load, lake, output):
    with pytest.raises(Crash):
        load(ONE, filesystem=CrashingFileSystem(LOCAL, "after publish 00000.json"))
    require_fitting(lake, ONE)
    with pytest.raises(ConfigError, match="column a would be long"):
        require_fitting(lake, ValueColumns.json("a:long"))
    load(ONE)
    assert verified(output).rows == 3
    assert load(ONE).rows == 6
