"""Which file system an output means."""

from pathlib import Path

import pytest

from spark_loader.storage.files import LocalFileSystem
from spark_loader.storage.filesystems import filesystem_for, is_local, output_path


@pytest.mark.parametrize(
    ("output", "local"),
    [
        ("lake", True),
        ("/lake", True),
        ("file:///lake", True),
        ("C:/lake", True),
        ("hdfs://name:8020/lake", False),
        ("s3a://bucket/lake", False),
    ],
)
def test_a_scheme_of_two_letters_is_another_file_system(output, local):
    assert is_local(output) is local
    if local:
        assert isinstance(filesystem_for(output), LocalFileSystem)


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ("/lake/", "/lake"),
        ("file:///lake", "/lake"),
        ("file://localhost/lake", "/lake"),
        ("file:/lake", "/lake"),
        ("//lake", "/lake"),
        ("s3a://bucket/lake/", "s3a://bucket/lake"),
    ],
)
def test_paths_are_in_the_form_that_names_are_put_behind(output, path):
    assert output_path(output) == path


def test_a_relative_path_becomes_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert Path(output_path("lake")) == tmp_path / "lake"
