"""Rows of hours without an open file are spooled to disk."""

import pyarrow as pa

from spark_loader.sink.spool import Spool


def table(*numbers):
    return pa.table({"n": pa.array(numbers, pa.int64())})


def test_spooled_rows_return_by_place_in_order():
    spool = Spool()
    spool.put("11", table(1, 2))
    spool.put("10", table(3))
    spool.put("11", table(4))
    assert spool.places() == ["10", "11"]
    assert "11" in spool
    back = [number for batch in spool.take("11") for number in batch.column(0).to_pylist()]
    assert back == [1, 2, 4]
    assert "11" not in spool
    assert spool.places() == ["10"]
    spool.close()
    assert spool.places() == []
    Spool().close()
