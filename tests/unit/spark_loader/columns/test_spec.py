"""Columns may be added, and keep their types."""

import pickle

import pyarrow as pa
import pytest

from spark_loader.columns.spec import ValueColumns, require_same_types
from zkbroker.errors import ConfigError

COLUMNS = ValueColumns.json("a:int,b:decimal(4,2)")


def test_columns_are_picklable():
    assert pickle.loads(pickle.dumps(COLUMNS)) == COLUMNS
    assert [field.name for field in COLUMNS.fields] == ["a", "b"]


def test_columns_may_be_added_and_dropped():
    require_same_types(pa.schema([("value", pa.binary()), ("c", pa.string())]), COLUMNS)
    require_same_types(pa.schema(COLUMNS.fields), COLUMNS)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (("a", pa.int64()), "column a would be int; what was loaded before has a as long"),
        (("A", pa.int32()), "has A as int"),
        (("b", pa.decimal128(5, 2)), r"would be decimal\(4,2\).*as decimal\(5,2\)"),
    ],
)
def test_changed_column_type_is_refused(field, message):
    with pytest.raises(ConfigError, match=message):
        require_same_types(pa.schema([field]), COLUMNS)
