"""The file system of an output is chosen by its scheme."""

from pathlib import Path

import pytest

from spark_loader.storage.files import LocalFileSystem
from spark_loader.storage.filesystems import filesystem_for, is_local, output_path, spark_path
from zkbroker.errors import ConfigError


@pytest.mark.parametrize(
    ("output", "local"),
    [
        ("lake", True),
        ("/lake", True),
        ("file:///lake", True),
        ("C:/lake", True),
        ("hdfs://name:8020/lake", False),
        ("s3a://bucket/lake", False),
        ("s3://bucket/lake", False),
    ],
)
def test_scheme_selects_file_system(output, local):
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
def test_output_path_is_normalized(output, path):
    assert output_path(output) == path


def test_s3_output_uses_s3_file_system_and_s3a_for_spark():
    pytest.importorskip("obstore")
    from spark_loader.storage.s3 import S3FileSystem

    found = filesystem_for("s3://bucket/lake", storage={"AWS_REGION": "eu-central-1"})
    assert isinstance(found, S3FileSystem)
    assert found.settings["aws_region"] == "eu-central-1"
    paths = ("s3://bucket/s3:/x", "s3a://bucket/x", "/lake", "hdfs://name/lake")
    assert list(map(spark_path, paths)) == ["s3a://bucket/s3:/x", *paths[1:]]
    with pytest.raises(ConfigError, match="storage options are for s3://, not for /lake"):
        filesystem_for("/lake", storage={"AWS_REGION": "x"})


def test_relative_path_becomes_absolute(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert Path(output_path("lake")) == tmp_path / "lake"
