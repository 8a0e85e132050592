"""A catalog of files: each version's name is created once."""

import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.exceptions import CommitFailedException

from spark_loader.lake.formats import ICEBERG
from spark_loader.lake.iceberg_files import FileCatalog
from spark_loader.lake.table import LakeTable
from spark_loader.storage.files import LocalFileSystem
from tests.support.loading import LOCAL, entry


@pytest.fixture
def catalog(tmp_path):
    table = LakeTable(LOCAL, str(tmp_path), ICEBERG)
    table.commit(entry(1))
    return FileCatalog(LOCAL, str(tmp_path))


def test_second_commit_on_same_version_fails(catalog, tmp_path):
    one, two = catalog.read(2), catalog.read(2)
    one.transaction().set_properties(a="1").commit_transaction()
    with pytest.raises(CommitFailedException, match="version 3 is taken"):
        two.transaction().set_properties(a="2").commit_transaction()
    assert (catalog.newest(), catalog.read(3).properties["a"]) == (3, "1")
    assert (tmp_path / "metadata" / "version-hint.text").read_text() == "3"


def test_outdated_version_hint_is_corrected(catalog, tmp_path):
    hint = tmp_path / "metadata" / "version-hint.text"
    for text in ("1", ""):
        hint.write_text(text)
        catalog.hint()
        assert hint.read_text() == "2"


def test_slower_writer_keeps_newer_version_hint(catalog, tmp_path):
    class Slow(LocalFileSystem):
        def replace(self, path, data):
            if path.endswith("hint.text") and catalog.newest() == 3:
                catalog.read(3).transaction().set_properties(a="4").commit_transaction()
            super().replace(path, data)

    slow = FileCatalog(Slow(sync=False), str(tmp_path))
    slow.read(2).transaction().set_properties(a="3").commit_transaction()
    assert (tmp_path / "metadata" / "version-hint.text").read_text() == "4"


def test_directory_without_table_has_version_zero(tmp_path):
    empty = FileCatalog(LOCAL, str(tmp_path / "none"))
    empty.hint()
    assert (empty.newest(), (tmp_path / "none").exists()) == (0, False)
