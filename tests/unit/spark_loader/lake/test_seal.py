"""Checksums of files that the library wrote."""

import pytest

from spark_loader.errors import CheckpointError
from spark_loader.lake.seal import seal
from spark_loader.lake.table_format import Hours
from tests.support.loaded import loaded_files
from tests.support.loading import verified


def test_compacted_files_are_sealed_once(run, output, command, lake):
    run()
    assert seal(lake) == 0
    lake.table.compact(Hours("9999-01-01", 0), 1 << 20, lake.table.files())
    assert verified(output).unsealed == 1
    assert "1 file without a checksum" in command("verify", output)
    assert seal(lake) == 1
    assert (seal(lake), verified(output).unsealed) == (0, 0)


def test_file_with_wrong_row_count_is_not_sealed(run, output, lake):
    import pyarrow.parquet as pq

    run()
    lake.table.compact(Hours("9999-01-01", 0), 1 << 20, lake.table.files())
    [file] = loaded_files(output)
    pq.write_table(pq.ParquetFile(file).read().slice(1), file)
    with pytest.raises(CheckpointError, match="holds 139 rows, the table says 140"):
        seal(lake)
