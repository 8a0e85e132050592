"""A cluster in a directory, loads of it without Spark, and the command line."""

import os

import pytest

from spark_loader import Loader
from spark_loader.cli import cli, output_directory
from spark_loader.lake.checkpoint import Checkpoints
from tests.support.directory_cluster import DirectoryCluster
from tests.support.inline_spark import InlineSpark
from tests.support.loading import LOCAL


@pytest.fixture
def cluster(tmp_path):
    cluster = DirectoryCluster(str(tmp_path / "cluster"))
    for partition, count in ((0, 100), (1, 40), (2, 0)):
        cluster.append("t", partition, [b"%d" % n for n in range(count)])
    return cluster


@pytest.fixture
def output(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def run(cluster, output):
    """A load of topic `t`: `run(filesystem, **options)`."""

    def load(filesystem=LOCAL, spark=None, **fields):
        given = {"bootstrap": "h:1", "topics": ["t"], "output": str(output), "group_bytes": 0}
        loader = Loader(access=cluster, filesystem=filesystem, **given | fields)
        return loader.run(spark or InlineSpark())

    return load


@pytest.fixture
def lake(output):
    """The checkpoints of the output directory."""
    return Checkpoints(LOCAL, str(output))


@pytest.fixture
def command(monkeypatch, cluster, capsys):
    monkeypatch.setattr(output_directory, "ACCESS", cluster)

    def invoke(*arguments):
        cli.main([str(each) for each in arguments], standalone_mode=False)
        return capsys.readouterr().out

    return invoke


@pytest.fixture
def synced(monkeypatch):
    """The paths that were synced so far, in order."""
    found = []
    monkeypatch.setattr(os, "fsync", lambda fd: found.append(os.readlink(f"/proc/self/fd/{fd}")))
    return found
