"""The format of a directory's table."""

import sys

import pytest

pytest.importorskip("pyiceberg")

from spark_loader import LoadError
from spark_loader.lake.formats import DELTA, ICEBERG, open_table
from tests.support.loading import LOCAL


def test_table_format_of_directory_cannot_change(run, tmp_path):
    for kind, other in ((DELTA, ICEBERG), (ICEBERG, DELTA)):
        output = str(tmp_path / kind)
        run(output=output, table=kind)
        assert open_table(LOCAL, output).directory == open_table(LOCAL, output, kind).directory
        with pytest.raises(LoadError, match=f"is a table of format {kind}, not {other}: leave"):
            run(output=output, table=other)


def test_new_directory_uses_requested_format_or_delta(tmp_path):
    kinds = [open_table(LOCAL, str(tmp_path), kind).directory for kind in ("", DELTA, ICEBERG)]
    assert kinds == ["_delta_log", "_delta_log", "metadata"]


def test_missing_library_error_names_extra(monkeypatch, tmp_path):
    for name in [
        each for each in sys.modules if each.startswith(("pyiceberg", "spark_loader.lake.iceberg"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(LoadError, match=r"pip install 'zkbroker\[iceberg\]'"):
        open_table(LOCAL, str(tmp_path), ICEBERG)
